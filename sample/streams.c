/*
 * Descriptors 0, 1 and 2 are made valid. Contract: streams.h.
 */
#include "sample/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int streams_open(void)
{
        static const int modes[] = { O_RDONLY, O_RDONLY, O_WRONLY };

        for (int fd = 0; fd < 3; fd++) {
                if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF)
                        continue;
                /* The lowest free number is given, so it is the closed one. A root without /dev has at least "/". */
                int got = open("/dev/null", modes[fd] | O_NOCTTY | O_CLOEXEC); /* what we exec finds it closed, as without us */
                if (got < 0)
                        got = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                if (got < 0)
                        return -errno;
                if (got != fd) {
                        close(got);
                        return -EBADF;
                }
        }
        return 0;
}
