"""Real servers for tests and for experiments. They listen on free ports of 127.0.0.1, and end when the program that started them ends.

`process` starts and ends one server, and `keeper` ends it when its program dies. `server` is the interface of all servers. `cache` and
`maven` fetch their files. `shared` lets all workers of a test session use one server, and `required` skips tests without a server. A new
server is a module like `redis_server`: a function `why_not()` and a class with `start` and its address.
"""
