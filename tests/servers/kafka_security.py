"""TLS, passwords and access rights of a broker."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.servers.certificates import Certificates


@dataclass(frozen=True)
class KafkaSecurity:
    """Listeners beside the plain one, on which everybody is ANONYMOUS with all rights."""

    users: Mapping[str, str] = field(default_factory=dict)
    """Passwords by name, for PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512. They open SASL_PLAINTEXT, and SASL_SSL with `tls`."""
    tls: bool = False
    """Opens SSL, with a certificate of its own authority: `ca.pem` in the broker's folder."""
    acls: bool = False
    """Users have only granted rights."""

    @property
    def listeners(self) -> list[str]:
        """Names of the listeners, which are the names of their protocols."""
        return [
            *(["SASL_PLAINTEXT"] if self.users else []),
            *(["SSL"] if self.tls else []),
            *(["SASL_SSL"] if self.users and self.tls else []),
        ]

    def format_options(self) -> list[str]:
        """Return the arguments that format the storage with the SCRAM passwords."""
        return [
            option
            for name, password in self.users.items()
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for option in ("--add-scram", f"{mechanism}=[name={name},password={password}]")
        ]

    def settings(self, folder: Path) -> dict[str, object]:
        """Return the lines for server.properties. Writes certificates into the folder if there are none."""
        settings: dict[str, object] = {}
        if self.users:
            settings["sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
            known = " ".join(f'user_{name}="{password}"' for name, password in self.users.items())
            for listener in (name for name in self.listeners if name.startswith("SASL")):
                prefix = f"listener.name.{listener.lower()}"
                settings[f"{prefix}.plain.sasl.jaas.config"] = f"org.apache.kafka.common.security.plain.PlainLoginModule required {known};"
                for mechanism in ("scram-sha-256", "scram-sha-512"):
                    module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
                    settings[f"{prefix}.{mechanism}.sasl.jaas.config"] = module
        if self.tls:
            certificates = Certificates.made_in(folder)
            settings["ssl.keystore.type"] = "PEM"
            settings["ssl.keystore.location"] = certificates.key_and_certificate
        if self.acls:
            settings["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
            settings["super.users"] = "User:ANONYMOUS"
        return settings
