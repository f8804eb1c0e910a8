// What one asks of a session and what it answers, as plain values. Names follow the wire's; no JSON here.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/async.h"
#include "shell/dialect.h"
#include "shell/incarnation.h"
#include "shell/journal.h"
#include "shell/limits.h"
#include "shell/offset.h"
#include "shell/output_text.h"
#include "shell/pattern.h"
#include "shell/process_tree.h"
#include "shell/waiting.h"

namespace rex::shell {

enum class Profile { agent, human };

/// What becomes of output that a full journal has no room for.
enum class OnFull { drop, block };

/// Whether it ends with its client, or only when somebody ends it.
enum class Lifetime { connection, daemon };

struct CreateOptions {
  std::string session;  // empty: we choose a name
  std::optional<std::string> shell;
  std::vector<std::string> argv;  // not empty: this program instead of a shell
  bool tty = true;
  std::string cwd;                                        // empty: ours
  std::map<std::string, std::optional<std::string>> env;  // nullopt unsets
  bool clear_env = false;
  Profile profile = Profile::agent;
  Startup startup = Startup::clean;
  std::vector<std::string> startup_source;
  Milliseconds startup_timeout{10'000};
  int rows = 50;
  int cols = 200;
  bool restart = true;
  std::size_t journal_bytes = Journal::kDefaultCapacity;
  OnFull on_full = OnFull::drop;
  ResourceLimits limits;
  std::map<std::string, std::string> labels;
  Lifetime lifetime = Lifetime::connection;
  std::optional<Milliseconds> ttl;  // of a daemon session that nobody is connected to and that runs nothing
};

enum class SessionState { ready, running, waiting_input, stopped, unmanaged, exited };

struct StartupReport {
  std::string output;
  std::vector<std::string> sourced;
  std::int64_t duration_ms = 0;
  std::vector<std::string> warnings;
};

struct SessionInfo {
  std::string session;
  pid_t pid;
  std::vector<std::string> argv;
  std::optional<std::string> shell;
  std::string cwd;
  bool tty;
  int rows;
  int cols;
  SessionState state;
  Lifetime lifetime;
  std::optional<Milliseconds> ttl;
  std::map<std::string, std::string> labels;
  timespec created_at;
  std::optional<timespec> last_output_at;
  Offset oldest;
  Offset next;
  std::optional<Process> foreground;
  std::optional<std::string> job;
  std::optional<Waiting> waiting;
  std::optional<std::string> writer;
  int generation;
  std::optional<StartupReport> startup;
  std::optional<ResourceLimits> limits;  // as they are in force
  TreeLimits counted;                    // those of them that a cgroup holds the tree to
  std::optional<int> journal_error;      // the errno that cost a journal its file
};

enum class RunState {
  exited,
  signaled,
  running,
  waiting_input,
  matched,
  stopped,
  timed_out,
  cancelled,
  shell_exited,
  lost
};

enum class Completion { exact, heuristic };

struct Restarted {
  std::string cause;
  std::optional<int> exit_code;
};

struct SyntaxFault {
  std::int64_t line;
  std::string text;
  bool ran_before;
};

/// How a result's output is to be shown; reading options, they change nothing that runs.
struct OutputOptions {
  View view = View::clean;
  std::size_t max_bytes = OutputText::kDefaultMaxBytes;
};

/// What a caller wants of a command that has begun; it changes nothing that runs.
struct FollowOptions {
  std::optional<Milliseconds> wait;
  std::optional<Milliseconds> quiet;
  bool return_on_input = true;
  std::shared_ptr<const PatternSet> expect;
  OutputOptions output;
  /// Told where the job's output begins, before it is waited for, and where it ends if it has.
  std::function<void(Offset from, std::optional<Offset> to)> began;
};

struct RunOptions {
  std::string command;
  std::optional<Milliseconds> timeout;
  bool stdin_empty = false;
  bool isolate = false;
  bool interactive = false;
};

struct RunResult {
  std::string session;
  std::string job;
  RunState state = RunState::running;
  std::optional<int> exit_code;
  std::optional<int> signal;
  std::vector<int> pipe_status;
  std::string cwd;
  std::int64_t duration_ms = 0;
  CollectedOutput output;
  Completion completion = Completion::exact;
  std::optional<SyntaxFault> syntax_error;
  std::optional<Match> expect;
  std::optional<Waiting> waiting;
  std::vector<Process> interleaved;
  std::vector<Process> survivors;
  std::optional<Restarted> restarted;
  std::vector<std::string> warnings;
};

struct Condition {
  enum class Kind { exit, input, match, quiet, listening, file, bytes };
  Kind kind;
  std::string pattern;
  std::optional<Offset> from;
  bool strip_ansi = true;
  Milliseconds quiet{0};
  std::uint16_t port = 0;
  std::string path;      // relative: to where the session is
  bool changed = false;  // not as it was when the wait began
  Offset bytes = 0;
};

struct WaitOptions {
  std::optional<std::string> job;
  std::vector<Condition> any;
  std::optional<Milliseconds> wait;
  std::optional<Offset> from;
  OutputOptions output;
};

struct WaitResult {
  std::optional<std::size_t> met;
  std::optional<RunResult> result;
  Offset next;
};

struct ReadOptions {
  Stream stream;
  std::optional<Offset> offset;
  std::size_t max_bytes = std::size_t{1} << 20;
  std::optional<Milliseconds> wait;
};

struct ReadResult {
  std::string data;
  Offset from;
  Offset next;
  Offset oldest;
  Offset end;
  bool eof;
  SessionState state;
};

struct InterruptResult {
  SessionState state;
  std::optional<std::string> step;  // INT, TERM, KILL
  std::optional<RunResult> result;
};

struct CloseResult {
  std::optional<int> exit_code;
  std::optional<int> signal;
  std::vector<Process> survivors;
};

/// Something a session announces to whoever listens; of the facts only those that belong to its kind are set.
struct SessionEvent {
  enum class Kind {
    job_started,     // job
    job_ended,       // job, run_state, exit_code, signal
    waiting_input,   // job, waiting
    shell_exited,    // exit_code, signal; also of a program that is no shell
    restarted,       // cause, exit_code
    cwd,             // text: the directory
    title,           // text
    bell,            //
    writer_changed,  // text: who, empty when nobody holds the lease
    state_changed,   //
  };
  Kind kind;
  std::string session = {};                    // Session fills in these five:
  SessionState state = SessionState::running;  // just then
  Offset at = 0;                               // where the journal of stdout ended
  timespec time = {};                          // by the wall clock
  std::uint64_t seq = 0;                       // which of the session's it is, from 1
  std::optional<std::string> job = {};
  std::optional<RunState> run_state = {};
  std::optional<int> exit_code = {};
  std::optional<int> signal = {};
  std::optional<Waiting> waiting = {};
  std::string cause = {};
  std::string text = {};
};

}  // namespace rex::shell
