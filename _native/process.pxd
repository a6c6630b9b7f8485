"""Rows and verdicts between a bolt task and the child process that has its instance."""

cdef extern from *:
    """
    #ifdef _WIN32
    #define exit_when_closed(fd, status) ((void)(fd), (void)(status))
    #else
    #include <poll.h>
    #include <unistd.h>

    static int is_closed(int fd) {
        struct pollfd watched = {fd, 0, 0};
        return poll(&watched, 1, -1) > 0 && (watched.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
    }

    static void exit_when_closed(int fd, int status) {
        while (!is_closed(fd)) {}
        _exit(status);
    }
    #endif
    """
    void exit_when_closed(int fd, int status) nogil
