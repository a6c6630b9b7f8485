"""Rows and verdicts between a bolt task and the child process that has its instance."""

cdef extern from *:
    """
    #ifdef _WIN32
    #define exit_when_gone(connection, parent, status) ((void)(connection), (void)(parent), (void)(status))
    #else
    #include <poll.h>
    #include <unistd.h>

    static void exit_when_gone(int connection, int parent, int status)
    {
        struct pollfd watched[2] = {{connection, 0, 0}, {parent, POLLIN, 0}};

        while (poll(watched, 2, -1) <= 0)
            continue;

        _exit(status);
    }
    #endif
    """
    void exit_when_gone(int connection, int parent, int status) nogil
