// The other side of subprocess_test: behaves as its first argument says.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "base/subprocess.h"

namespace {

using fusetune::base::kChildReadFd;
using fusetune::base::kChildWriteFd;

void echo() {
  std::string message;
  while (fusetune::base::read_message(kChildReadFd, message)) {
    if (!fusetune::base::write_message(kChildWriteFd, message)) return;
  }
}

// A message whose second half comes late.
void stutter() {
  const char bytes[] = {6, 0, 0, 0, 'a', 'b', 'c', 'd', 'e', 'f'};
  (void)!::write(kChildWriteFd, bytes, 5);
  ::usleep(300'000);
  (void)!::write(kChildWriteFd, bytes + 5, 5);
  ::pause();
}

// A parent to be killed: does its worker die with it?
void keep_worker(const char* self) {
  const fusetune::base::ChildProcess worker({self, "pid-then-hang"});
  ::pause();
}

int behave(const std::string& mode, const char* self) {
  if (mode == "echo") echo();
  if (mode == "stutter") stutter();
  if (mode == "keep-worker") keep_worker(self);
  if (mode == "hang") ::pause();
  if (mode == "pid-then-hang") {
    std::printf("%d\n", static_cast<int>(::getpid()));
    std::fflush(stdout);
    ::pause();
  }
  if (mode == "write-then-exit") fusetune::base::write_message(kChildWriteFd, "last words");
  if (mode == "close-then-hang") {
    ::close(kChildWriteFd);
    ::pause();
  }
  if (mode == "garbage") {
    (void)!::write(kChildWriteFd, "\xff\xff\xff\xff not a message", 18);
    ::pause();
  }
  if (mode == "flood") {
    for (;;) (void)!::write(1, "flood flood flood flood flood\n", 30);
  }
  if (mode == "segfault") ::raise(SIGSEGV);
  return 3;
}

}  // namespace

int main(int argc, char** argv) { return argc < 2 ? 2 : behave(argv[1], argv[0]); }
