"""Rows and verdicts between a bolt task and the child process that has its instance."""

cdef extern from *:
    """
    #ifdef _WIN32
    #define exit_when_closed(fd, status) ((void)(fd), (void)(status))
    #else
    #include <poll.h>
    #include <unistd.h>

    static void exit_when_closed(int fd, int status)
    {
        struct pollfd watched = {fd, 0, 0};

        while (poll(&watched, 1, -1) <= 0 || !watched.revents)
            continue;

        _exit(status);
    }
    #endif
    """
    void exit_when_closed(int fd, int status) nogil
