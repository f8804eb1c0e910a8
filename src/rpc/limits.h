// The bounds of the rpc room, each by its name in `initialize.limits` where it has one.
#pragma once

#include <cstddef>

namespace rex::rpc {

struct Limits {
  std::size_t frame_bytes = 16u << 20;            // frameBytes: one message, without its header
  std::size_t handshake_frame_bytes = 64u << 10;  // handshakeFrameBytes: one message of a stranger
  std::size_t header_bytes = 4096;                // headerBytes: one header block
  std::size_t header_lines = 16;                  // lines of a header block
  std::size_t json_depth = 64;                    // jsonDepth
  std::size_t json_values = 1'000'000;            // values in one message: a tree costs up to 100 bytes for each
  std::size_t number_bytes = 1024;                // length of one number
  std::size_t id_bytes = 1024;                    // length of an id as written
  std::size_t method_bytes = 256;                 // length of a method's name
  std::size_t batch = 1000;                       // batch: messages in one
  std::size_t in_flight = 1000;                   // inFlight: requests of one connection without their answer
  std::size_t unsent_bytes = 32u << 20;  // output waiting for the peer beyond which we read no more of its requests
  std::size_t onward_bytes = 1u << 20;   // as unsent_bytes, of the connection that what is read goes on to
  std::size_t stray_responses = 100;     // answers to nothing we asked, before the connection is closed
};

}  // namespace rex::rpc
