/* Holds namespaces open: of a pod (the sandbox image) and of the node itself (its process 1).
 * It waits for signals, collects the children that were left to it, and ends on SIGTERM or SIGINT.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    sigset_t signals;
    int received;

    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, 0);
    for (;;) {
        while (waitpid(-1, 0, WNOHANG) > 0) {
        }
        if (sigwait(&signals, &received) == 0 && received != SIGCHLD) {
            return 0;
        }
    }
}
