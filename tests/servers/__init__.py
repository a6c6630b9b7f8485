"""Real servers for tests and for trying things out, on free ports of 127.0.0.1; each ends with the program that started it.

`process` starts and ends one, `keeper` ends it when its program dies, `server` is what all of them can do, `cache` and `maven` fetch what
a server is made of, `shared` lets all workers of a test session use one, `required` says what a test does where there is none. A new
server is a module like `redis_server`: `why_not()`, and a class with `start`, and where it is reached.
"""
