// Process 1 of a pod: keeps the namespaces of the pod, and exits on SIGTERM and SIGINT.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static void stop(int signal) {
  (void)signal;
  _exit(0);
}

int main(void) {
  signal(SIGINT, stop);
  signal(SIGTERM, stop);
  signal(SIGCHLD, SIG_IGN);  // The kernel reaps orphans.
  for (;;) pause();
}
