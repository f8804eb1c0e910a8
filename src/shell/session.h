// A session: a program in its own terminal or on pipes, whose every output byte is kept in a journal, and the jobs run
// in it. Knows no connection, no JSON and no transport: any number of callers wait on it at once, each as a cursor.
//
// All members run on the loop thread. Public tasks keep the session alive while they run. session_start.cc holds how
// its shell becomes ready, session.cc the rest of its life (restart, close), session_info.cc what is told of it,
// session_output.cc what comes from its program, session_run.cc jobs, session_follow.cc how callers wait for them,
// session_result.cc what is told of them,
// session_wait.cc waiting and reading, session_control.cc signals and stopping, session_events.cc what it announces and
// who may type, session_waiting.cc whether its program waits for input.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/async.h"
#include "base/error.h"
#include "shell/incarnation.h"
#include "shell/journal.h"
#include "shell/pattern.h"
#include "shell/session_events.h"
#include "shell/session_input.h"
#include "shell/session_types.h"
#include "shell/startup_watch.h"
#include "shell/terminal.h"
#include "shell/waiting.h"
#include "shell/writer_lease.h"

namespace rex::shell {

/// How long each step of interrupt, terminate, kill waits unless told otherwise.
inline constexpr Milliseconds default_grace{2000};
inline constexpr std::size_t max_kept_jobs = 1000;

inline constexpr std::size_t max_held_output = 1 << 20;

/// A journal that holds its program up is full with so much to spare: what the terminal has taken already must go in.
inline constexpr std::size_t journal_reserve = 256 << 10;
inline constexpr std::size_t least_blocking_journal = 1 << 20;
inline constexpr std::size_t max_startup_output = 64 * 1024;

/// Numbers of our own commands, far above those of jobs.
inline constexpr std::uint64_t first_internal_number = std::uint64_t{1} << 40;

/// How an ended job ended.
struct JobEnd {
  RunState state;
  std::optional<int> exit_code;
  std::optional<int> signal;
  std::vector<int> pipe_status;
  std::string cwd;
  Offset to;
  std::int64_t duration_ms;
  std::optional<SyntaxFault> syntax_error;
  std::vector<Process> survivors;
  std::vector<std::string> warnings;
};

/// One command run in a shell session, or the program of a session without a shell.
struct Job {
  std::uint64_t number;
  std::int64_t lines;  // of its text
  Offset from;
  TimePoint started;
  int status_before = 0;             // `$?` as it found it
  std::vector<pid_t> before;         // processes of earlier jobs that were there when it began
  std::vector<Process> interleaved;  // those of them that held the terminal
  std::optional<Restarted> restarted;
  std::optional<RunState> stopping;   // timed_out or cancelled, once we began to end it
  bool being_stopped = false;         // its end is not told before all that it started is gone too
  bool beyond_reach = false;          // it could not be ended: what is left of it we may not signal
  std::unique_ptr<AsyncFd> isolated;  // its own output, when it does not write to the terminal
  Fd isolated_writer;                 // what the shell opens; let go of at the job's end
  bool interrupted = false;           // the shell may still have something to say about that
  std::optional<JobEnd> end;
  bool names_settled = false;

  [[nodiscard]] std::string id() const { return std::to_string(number); }
  [[nodiscard]] bool is_over() const { return (end && !being_stopped) || beyond_reach; }
};

class Session;

/// A command that was given to a session: what a caller follows, once or again.
struct Begun {
  std::weak_ptr<Session> session;  // whose
  std::shared_ptr<Job> job;
  Offset from = 0;                  // what came of it begins here
  bool is_typed = false;            // into what had the terminal; `job` is that
  std::string typed;                // what the terminal or the program may give back first
  TimePoint since{};                // when it had been typed
  std::optional<RunResult> answer;  // only typed: how it ended, without the output, which is `from` to
  Offset to = 0;                    // here
};

/// What all sessions of an instance share.
struct Shared {
  Nursery& nursery;
  Workers& workers;
  std::shared_ptr<MemoryBudget> journal_memory;
  std::shared_ptr<SessionEvents> events;
};

/// `all` without those of `some`.
std::vector<pid_t> without(std::vector<pid_t> all, const std::vector<pid_t>& some);

class WaitingWatch;

class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Executor executor, const Shared& shared, CreateOptions options);
  ~Session();

  /// Starts the program. Throws StartFailed with what it printed; the session is then of no use.
  Task<> start(Cancel& cancel);

  /// Gives a command to the shell, or types it into what has the terminal. Throws SessionBusy, InputRefused,
  /// SessionEnded, StartFailed.
  Task<std::shared_ptr<Begun>> begin(RunOptions options, Cancel& cancel);
  /// Waits for what a command of this session comes to. Any number of callers may, also long after its end: each gets
  /// the same answer, shown as it wants. A wish of `cancel` to stop the work ends the job.
  Task<RunResult> follow(std::shared_ptr<Begun> begun, FollowOptions options, Cancel& cancel);
  Task<WaitResult> wait(WaitOptions options, Cancel& cancel);
  Task<ReadResult> read(ReadOptions options, Cancel& cancel);
  /// Types or writes; returns how many bytes were taken.
  Task<std::size_t> write(Typing typing, Cancel& cancel);
  Task<InterruptResult> interrupt(bool escalate, Milliseconds grace, OutputOptions output);
  /// The processes the signal went to: the foreground group, or the program of an idle session.
  std::vector<pid_t> signal(int number, const std::optional<std::string>& job);
  void resize(WindowSize size);
  /// Throws InvalidParams, LimitExceeded `screenCells`.
  ScreenView screen(ScreenOptions options);
  [[nodiscard]] SessionInfo info();
  /// Ends the whole tree, and every pending call with it.
  Task<CloseResult> close(Milliseconds grace);

  /// Makes `client` the one that may type, until `leave_writer` with the number returned, or until somebody takes it
  /// over. `name` is for the others. Throws NotWriter when another one has it and this is no takeover.
  std::uint64_t take_writer(std::uint64_t client, std::string name, bool takeover);
  void leave_writer(std::uint64_t lease);
  /// Throws NotWriter when the lease is another client's.
  void require_writer(std::uint64_t client) const { writer_.require(client); }

  /// Where `offset` lies in a stream; without one, its end. Throws InvalidParams and OffsetGone, as `read` does.
  [[nodiscard]] Offset place_in(Stream stream, std::optional<Offset> offset);
  Journal& output(Stream stream) { return journal(stream); }
  /// Some reader has everything below; a full journal may go on where it holds its program up.
  void consumed(Stream stream, Offset upto);
  /// Nothing will ever be added to the stream.
  [[nodiscard]] bool is_over(Stream stream) const;
  /// Notified at output, at the end of a job, at a change of state.
  Event& changed() { return changed_; }
  /// Whoever has this lease shows the session on a terminal, which answers what programs ask; while it lasts, we do
  /// not.
  void shown_on_terminal(std::uint64_t lease) { terminal_lease_ = lease; }
  /// Where line feeds lack their carriage return, for whoever shows the journal on a terminal (TerminalNewlines).
  [[nodiscard]] const TerminalMarks& terminal_marks() const { return terminal_.marks(); }

  [[nodiscard]] const std::string& name() const { return options_.session; }
  [[nodiscard]] std::int64_t input_offset() const { return input_.offset(); }
  /// Where the journal of stdout ends now.
  [[nodiscard]] Offset output_end() const { return journal_.end(); }
  [[nodiscard]] Offset output_oldest() const { return journal_.oldest(); }
  /// For whoever may have missed events: of the kinds that say how it stands. Its `seq` is the newest one's.
  [[nodiscard]] SessionEvent what_is_now(SessionEvent::Kind kind);

 private:
  // session.cc
  Task<> ensure_alive();
  Restarted retire_incarnation();
  [[nodiscard]] bool ended_for_good() const;
  [[noreturn]] void throw_ended() const;

  // session_info.cc
  [[nodiscard]] SessionState state();
  /// Where the session is, for what is given relative to it.
  [[nodiscard]] std::string directory() const;
  /// Every living process of the session, those that dead shells left behind included.
  [[nodiscard]] std::vector<pid_t> tree() const;

  // session_events.cc: `stamp` fills in what every event tells
  void announce(SessionEvent event);
  void stamp(SessionEvent& event);
  void announce_state();
  void announce_exit(Incarnation& which);
  void move_to(std::string cwd);

  // session_waiting.cc
  void watch_terminal();
  void waiting_changed();
  /// Whether the running job's program waits for the terminal and for nothing else.
  [[nodiscard]] bool reads_input() const;
  [[nodiscard]] bool foreground_stopped() const;
  /// Whether it could be known.
  [[nodiscard]] bool can_tell_waiting() const;
  [[nodiscard]] std::optional<Waiting> waiting();
  Task<> await_secret_prompt(std::shared_ptr<Incarnation> in);

  // session_start.cc
  void choose_shell();
  Task<> start_incarnation(std::string cwd);
  Task<> await_ready(TimePoint deadline);
  Task<> source_startup_files(TimePoint deadline);
  Task<> fail_start(std::string why);
  Task<> abandon_start();
  void note_startup_files();
  IncarnationOptions incarnation_options(std::string cwd) const;
  [[nodiscard]] bool can_become_ready(Incarnation& in, TimePoint deadline) const;
  [[nodiscard]] std::string why_not_ready(Incarnation& in) const;
  [[nodiscard]] std::string other_shell() const;
  [[nodiscard]] std::string collect_startup() const;

  // session_output.cc
  static Task<> pump_output(std::shared_ptr<Session> self, std::shared_ptr<Incarnation> from, Stream stream);
  static Task<> pump_reports(std::shared_ptr<Session> self, std::shared_ptr<Incarnation> from);
  static Task<> pump_isolated(std::shared_ptr<Session> self, std::shared_ptr<Job> job);
  static Task<> watch_replaced(std::shared_ptr<Session> self, std::shared_ptr<Incarnation> which);
  static Task<> watch_program(std::shared_ptr<Session> self, std::shared_ptr<Incarnation> which);
  void take_output(const Incarnation& from, Stream stream, std::string_view bytes);
  void keep_output(Stream stream, std::string_view bytes, bool from_terminal);
  [[nodiscard]] bool must_wait_for_readers(Stream stream);
  Task<> await_readers(Stream stream);
  void drain_output(Incarnation& from);
  bool drain_isolated(Job& job);
  void take_records(Incarnation& from);
  void program_ended(Incarnation& which);
  Journal& journal(Stream stream) { return stream == Stream::err ? *err_journal_ : journal_; }

  // session_terminal.cc
  void hear(std::string_view bytes, bool from_terminal);
  void type_answers(Incarnation& in, const std::string& answers);
  static Task<> answer_when_read(std::shared_ptr<Session> self, std::shared_ptr<Incarnation> in,
                                 std::shared_ptr<Job> job, std::string answers);
  std::vector<std::string> restore_terminal();
  [[nodiscard]] std::string bytes_of_keys(const std::vector<std::string>& keys) const;

  // session_run.cc
  std::shared_ptr<Job> begin_job(std::string_view command);
  void end_job(JobEnd end);
  void end_job_by_record(Incarnation& in, const Record& record);
  [[nodiscard]] std::string true_cwd(const Incarnation& in, std::string_view claimed) const;
  Task<> await_shell();
  std::shared_ptr<Begun> run_command(const RunOptions& options);
  Task<std::shared_ptr<Begun>> type_command(RunOptions options, Cancel& cancel);

  // session_follow.cc
  struct Watch;
  Task<RunResult> outcome(std::shared_ptr<Job> job, Watch watch, OutputOptions output, Cancel& cancel);
  void skip_echo(Watch& watch);
  /// Feeds the scanner what the journal has beyond its place.
  std::optional<Match> scan(Scanner& scanner, Offset to);

  // session_result.cc
  RunResult result_of(const Job& job, Offset from, std::optional<Offset> to, OutputOptions output);
  Task<> settle_names(Job& job);
  CollectedOutput collect(Offset from, Offset to, OutputOptions output);
  [[nodiscard]] std::shared_ptr<Job> find_job(const std::optional<std::string>& id);

  // session_control.cc
  [[nodiscard]] std::optional<std::size_t> written_before(const Typing& typing) const;
  static Task<> enforce_lifetime(std::shared_ptr<Session> self, std::shared_ptr<Job> job, TimePoint deadline);
  static Task<> watch_lines(std::shared_ptr<Session> self);
  static Task<> stop_job(std::shared_ptr<Session> self, std::shared_ptr<Job> job, RunState reason);
  /// Until the shell has reported the job's end, or the deadline.
  Task<bool> wait_for_end(std::shared_ptr<Job> job, TimePoint deadline);
  Task<> stop_leftovers(std::shared_ptr<Job> job, std::shared_ptr<Incarnation> in);
  [[nodiscard]] static std::vector<pid_t> left_by(const Job& job, Incarnation& in);
  bool signal_foreground(int number);
  Task<bool> signal_until_end(std::shared_ptr<Job> job, int number, Milliseconds grace,
                              std::shared_ptr<bool> delivered);

  Executor executor_;
  Shared shared_;
  CreateOptions options_;
  std::vector<std::string> env_;
  const Dialect* dialect_ = nullptr;
  timespec created_at_{};

  std::shared_ptr<Incarnation> incarnation_;
  std::vector<std::shared_ptr<Incarnation>> former_;  // dead shells with processes left behind
  int generation_ = 0;
  bool starting_ = false;
  bool start_cancelled_ = false;
  bool closed_ = false;
  bool ready_ = false;               // the current incarnation's shell has reported for the first time
  std::uint64_t internal_done_ = 0;  // the last of our own commands that has ended
  int internal_status_ = 0;
  StartupReport startup_;
  std::unique_ptr<StartupWatch> startup_watch_;  // while the shell starts
  std::optional<Restarted> restarted_;           // to be told with the next job
  std::string cwd_;

  Journal journal_;
  std::unique_ptr<Journal> err_journal_;  // only on pipes
  Terminal terminal_;                     // fed what is appended to journal_
  std::optional<termios> usual_modes_;    // of the incarnation's terminal, between jobs
  std::uint64_t terminal_lease_ = 0;      // of a writer whose terminal answers for us
  std::string held_;  // what came to the terminal while a job with its own output ran; at most max_held_output
  bool out_ended_ = false;
  bool err_ended_ = false;
  Offset consumed_[2] = {0, 0};  // of stdout and stderr: what some reader has
  TimePoint last_output_{};
  std::optional<timespec> last_output_at_;
  SessionInput input_;
  std::shared_ptr<WaitingWatch> waiting_watch_;  // of the incarnation's terminal, if it has one

  std::map<std::uint64_t, std::shared_ptr<Job>> jobs_;
  std::shared_ptr<Job> current_;
  std::shared_ptr<Job> stopping_;  // being ended, trees and all; no other begins before that is done
  bool alone_ = false;             // when the last job ended, our shell was the only process
  bool watching_lines_ = false;    // a task looks after the running job's shell
  std::uint64_t next_job_ = 1;
  std::shared_ptr<SessionEvents> events_;
  std::uint64_t newest_event_ = 0;
  WriterLease writer_;
  SessionState told_state_ = SessionState::running;
  int told_exit_of_ = 0;  // generation
  Event closing_;
  Event changed_;  // output, the end of a job, a change of state
};

}  // namespace rex::shell
