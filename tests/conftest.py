"""What all tests share: the profiles of hypothesis."""

from hypothesis import HealthCheck, settings

# No deadline: the machines that run this are slow and shared. The blob replays a failure that CI found.
settings.register_profile("default", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("default")

