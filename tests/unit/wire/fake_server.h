#ifndef SANDBOXD_TESTS_UNIT_WIRE_FAKE_SERVER_H_
#define SANDBOXD_TESTS_UNIT_WIRE_FAKE_SERVER_H_

#include <functional>
#include <string>
#include <thread>

#include <nlohmann/json.hpp>

#include "base/unique_fd.h"
#include "sandboxd/client/client.h"
#include "sandboxd/wire/frame.h"
#include "sandboxd/wire/frame_buffer.h"

namespace sandboxd::client {

// The server's end of one connection, as a script drives it. Its functions fail the test where the
// client breaks the protocol or closes too early.
class Peer {
 public:
  explicit Peer(UniqueFd socket) : socket_(std::move(socket)) {}

  struct Received {
    wire::FrameHeader header;
    std::string payload;
    nlohmann::json json() const { return nlohmann::json::parse(payload); }
  };
  // The next frame; type kHello with stream ~0 where the client has closed.
  Received Read();
  // The next frame, which must be of `type`.
  Received Expect(wire::FrameType type);
  // The client closes after what has been read.
  void ExpectClosed();

  void SendRaw(absl::string_view bytes);
  void Send(wire::FrameType type, uint8_t flags, uint64_t stream, absl::string_view payload = "");
  void SendJson(wire::FrameType type, uint64_t stream, const nlohmann::json& body);

  // Reads the client's Hello and answers it.
  void Greet(uint64_t initial_credit = 262144);
  // Reads a Request for `op`, and returns its stream.
  uint64_t TakeRequest(const std::string& op);
  void Close() { socket_.Reset(); }

 private:
  UniqueFd socket_;
  wire::FrameBuffer buffer_{wire::Direction::kToServer};
};

// Runs `script` in a thread on one end of a connection, and gives the test a client on the other.
class ScriptedServer {
 public:
  explicit ScriptedServer(std::function<void(Peer&)> script);
  ~ScriptedServer() { Join(); }

  Client& client() { return client_; }
  // Until the script has ended.
  void Join();

 private:
  std::pair<UniqueFd, UniqueFd> sockets_;
  Peer peer_;
  Client client_;
  std::thread thread_;
};

}  // namespace sandboxd::client

#endif  // SANDBOXD_TESTS_UNIT_WIRE_FAKE_SERVER_H_
