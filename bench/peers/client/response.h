// Where an HTTP/1.1 response ends, and its status.
#pragma once

#include <strings.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string_view>

struct Response {
  int status;
  /** Of headers and body. */
  size_t length;
};

/** The value of a header, or nothing; `headers` ends with the empty line. */
inline std::optional<std::string_view> header(std::string_view headers, std::string_view name) {
  for (size_t at = headers.find("\r\n") + 2; at < headers.size();) {
    const size_t end = headers.find("\r\n", at);
    const std::string_view line = headers.substr(at, end - at);
    if (line.size() > name.size() && line[name.size()] == ':' && strncasecmp(line.data(), name.data(), name.size()) == 0) {
      const size_t value = line.find_first_not_of(' ', name.size() + 1);
      return value == std::string_view::npos ? std::string_view() : line.substr(value);
    }
    at = end + 2;
  }
  return std::nullopt;
}

/** The end of a body that comes in chunks, or nothing as long as it is not there. */
inline std::optional<size_t> endOfChunks(std::string_view text, size_t at) {
  for (;;) {
    const size_t line = text.find("\r\n", at);
    if (line == std::string_view::npos) return std::nullopt;
    size_t size = 0;
    if (std::from_chars(text.data() + at, text.data() + line, size, 16).ec != std::errc()) throw std::runtime_error("a chunk without a size");
    at = line + 2 + size + 2;
    if (at > text.size()) return std::nullopt;
    if (size == 0) return at;
  }
}

/** The response that `text` begins with, or nothing as long as it is not whole. */
inline std::optional<Response> wholeResponse(std::string_view text) {
  const size_t empty = text.find("\r\n\r\n");
  if (empty == std::string_view::npos) return std::nullopt;
  if (!text.starts_with("HTTP/1.")) throw std::runtime_error("no HTTP/1 response");
  const std::string_view headers = text.substr(0, empty + 2);
  const int status = std::atoi(text.data() + sizeof("HTTP/1.1"));
  const size_t body = empty + 4;
  if (const auto length = header(headers, "content-length")) {
    size_t bytes = 0;
    std::from_chars(length->data(), length->data() + length->size(), bytes);
    if (text.size() < body + bytes) return std::nullopt;
    return Response{status, body + bytes};
  }
  if (!header(headers, "transfer-encoding")) throw std::runtime_error("a response that says nothing of its length");
  const auto end = endOfChunks(text, body);
  if (!end) return std::nullopt;
  return Response{status, *end};
}
