#include "shell/pty.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"

namespace rex::shell {

Pty::Pty(WindowSize size, bool cooked) {
  master_ = Fd(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
  if (!master_) {
    if (errno == ENOSPC || errno == EAGAIN) {
      throw Error(Fault::LimitExceeded,
                  "the system has no pseudo-terminal left; close sessions or raise kernel.pty.max")
          .with("limit", std::string("pty"));
    }
    throw os_error("cannot open a pseudo-terminal (`tty: false` needs none)", errno, "/dev/ptmx");
  }
  char name[64];
  if (grantpt(master_.get()) != 0 || unlockpt(master_.get()) != 0 || ptsname_r(master_.get(), name, sizeof name) != 0) {
    throw os_error("cannot set up a pseudo-terminal (`tty: false` needs none)", errno, "/dev/ptmx");
  }
  path_ = name;
  slave_ = Fd(::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!slave_) {
    throw os_error("cannot open a pseudo-terminal", errno, path_);
  }
  termios modes{};
  tcgetattr(slave_.get(), &modes);
  modes.c_iflag |= IUTF8;
  if (!cooked) {
    modes.c_oflag &= ~static_cast<tcflag_t>(OPOST);
  }
  tcsetattr(slave_.get(), TCSANOW, &modes);
  resize_terminal(master_.get(), size);
}

void resize_terminal(int master, WindowSize size) {
  const winsize wanted{static_cast<unsigned short>(size.rows), static_cast<unsigned short>(size.cols), 0, 0};
  if (ioctl(master, TIOCSWINSZ, &wanted) != 0) {
    throw os_error("cannot resize the terminal", errno);
  }
}

std::optional<termios> terminal_modes(int master) {
  termios modes{};
  return tcgetattr(master, &modes) == 0 ? std::optional(modes) : std::nullopt;
}

std::optional<pid_t> foreground_group(int master) {
  const pid_t group = tcgetpgrp(master);
  return group > 0 ? std::optional(group) : std::nullopt;
}

}  // namespace rex::shell
