// One value for each limit: what a room enforces is what the contract announces.
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "files/edit.h"
#include "files/read.h"
#include "files/search.h"
#include "files/stat.h"
#include "files/watch.h"
#include "methods/attachments.h"
#include "methods/wire.gen.h"
#include "relay/router.h"
#include "rpc/limits.h"
#include "shell/journal.h"
#include "shell/output_text.h"
#include "shell/session.h"
#include "shell/session_types.h"
#include "shell/sessions.h"

using namespace rex;
namespace limits = rex::wire::limits;

TEST_CASE("Every room enforces the limits that are announced") {
  const rpc::Limits rpc;
  const shell::CreateOptions session;
  const std::pair<std::int64_t, std::uint64_t> pairs[] = {
      {limits::frameBytes, rpc.frame_bytes},
      {limits::handshakeFrameBytes, rpc.handshake_frame_bytes},
      {limits::headerBytes, rpc.header_bytes},
      {limits::jsonDepth, rpc.json_depth},
      {limits::jsonValues, rpc.json_values},
      {limits::batch, rpc.batch},
      {limits::inFlight, rpc.in_flight},
      {limits::hops, relay::max_hops},
      {limits::rows, session.rows},
      {limits::cols, session.cols},
      {limits::startupTimeoutMs, session.startup_timeout.count()},
      {limits::journalBytes, session.journal_bytes},
      {limits::journalBytes, shell::Journal::kDefaultCapacity},
      {limits::maxOutputBytes, shell::OutputText::kDefaultMaxBytes},
      {limits::screenCells, shell::Screen::kMaxCells},
      {limits::sessions, shell::max_sessions},
      {limits::journalMemoryBytes, shell::default_journal_memory},
      {limits::keptJobs, shell::max_kept_jobs},
      {limits::window, shell::default_window},
      {limits::attachments, methods::max_attachments},
      {limits::keptEvents, methods::max_kept_events},
      {limits::list_limit, files::default_list_limit},
      {limits::list_names, files::max_listed_names},
      {limits::edit_maxBytes, files::max_edit_bytes},
      {limits::edit_count, files::max_edits},
      {limits::edit_files, files::max_edited_files},
      {limits::search_maxResults, files::default_search_results},
      {limits::search_context, files::max_context},
      {limits::search_resultBytes, files::max_result_bytes},
      {limits::search_textBytes, files::max_shown_line},
      {limits::search_lineBytes, files::max_searched_line},
      {limits::search_errors, files::max_search_errors},
      {limits::watch_entries, files::max_watched_entries},
      {limits::watch_changes, files::max_pending_changes},
      {limits::watch_pollMs, files::poll_interval_ms},
      {limits::read_lineScanBytes, files::max_line_scan_bytes},
  };
  for (const auto& [announced, enforced] : pairs) {
    CHECK(static_cast<std::uint64_t>(announced) == enforced);
  }
}

TEST_CASE("What a reader lets through, the room behind it takes") {
  const auto taken = [](std::int64_t bytes) {
    wire::FileReadParams params;
    params.path = "/";
    params.length = bytes;
    try {
      wire::read<wire::FileReadParams>(wire::write(params));
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  CHECK(taken(files::max_read_bytes));
  CHECK_FALSE(taken(files::max_read_bytes + 1));
}
