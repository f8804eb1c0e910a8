// What a client has beyond a link, kept so that it can be asked for again when the link is there anew: names of hosts,
// and what streams to it. Pure bookkeeping over requests and notifications; must not know who sends them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rex::relay {

/// Of each kind; a name more is not had again, a stream more is refused.
inline constexpr std::size_t max_held = 4096;

/// The request that gives back what such a request has made; empty for one that makes nothing lasting.
std::string_view ended_by(std::string_view method);

class Holdings {
 public:
  /// A name that the client has connected behind the neighbour.
  struct Name {
    std::string path;       // from the neighbour: "gpu", "bastion/gpu"
    nlohmann::json params;  // of its host/connect, as the neighbour reads it
    bool there = true;
    std::string problem{};  // why it could not be had again so far; empty while nobody has tried
  };
  /// An attachment, a subscription or a watch.
  struct Stream {
    std::string method;
    nlohmann::json params;               // as the neighbour reads them
    std::string host;                    // the path from the neighbour
    std::optional<std::string> far;      // the neighbour's id of it; nullopt until it is had again
    std::optional<std::int64_t> next{};  // of one with output: where it goes on, and what of it is consumed
    std::int64_t acked = 0;
    nlohmann::json created{};  // when its session was: another of the same name is not the same
  };

  /// Whether there is no room for one more beside those that are being opened.
  [[nodiscard]] bool is_full_of_streams(std::size_t opening = 0) const { return streams_.size() + opening >= max_held; }
  [[nodiscard]] bool is_empty() const { return names_.empty() && streams_.empty(); }
  [[nodiscard]] const std::vector<Name>& names() const { return names_; }
  /// By the client's id.
  [[nodiscard]] const std::map<std::string, Stream>& streams() const { return streams_; }

  /// A `host/connect` has been answered. A machine that it made is not kept: another one would be in its place.
  void connected(const std::string& host, nlohmann::json params);
  /// A `host/disconnect` is sent, or has been answered: nothing behind it is had any more.
  void disconnected(const std::string& path);
  /// Another request has been answered: `params` is as the neighbour read it, `local` the client's id of what it made.
  void made(std::string_view method, nlohmann::json params, const nlohmann::json& result, const std::string& local);
  /// False when there is none.
  bool forget(const std::string& local);
  void forget_streams() { streams_.clear(); }
  void acknowledged(const std::string& local, std::int64_t upto);
  /// Takes what is about to be told to the client of a stream. False for output that does not go on where it was.
  bool told(const std::string& local, std::string_view method, const nlohmann::json& params);

  /// The link is there anew: nothing of all this is.
  void lost();
  /// What to ask for a stream once more.
  [[nodiscard]] nlohmann::json to_resume(const Stream& stream) const;
  /// The answer to that. False when it is not what it was: then whatever comes of it is nobody's.
  bool resumed(const std::string& local, const nlohmann::json& result);
  void name_is_there(const std::string& path);
  void name_is_missing(const std::string& path, std::string problem);
  /// It cannot be had again, nor what is behind it.
  void name_is_gone(const std::string& path);
  /// The first name on the path that is not there; null where all are.
  [[nodiscard]] const Name* missing_on(std::string_view path) const;

  /// The client's id of a stream that was had again; nullopt for the others, whose ids say which way they came.
  [[nodiscard]] std::optional<std::string> local_id(const std::string& far) const;
  /// Whether nobody is told what comes of it.
  [[nodiscard]] bool is_nobodys(const std::string& far) const { return nobodys_.contains(far); }

 private:
  Name* find(const std::string& path);

  std::vector<Name> names_;  // those in front before those behind them
  std::map<std::string, Stream> streams_;
  std::map<std::string, std::string> again_;  // the far ids of streams that were had again, to the client's
  std::set<std::string> nobodys_;
};

}  // namespace rex::relay
