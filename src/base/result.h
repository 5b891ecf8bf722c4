// Expected failures are values: Status for "did it work", Result<T> for "the thing or why not".
// A message names the thing, what was expected and what was found; the hint says what the user can do.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/check.h"

namespace strata {

enum class Code {
  ok,
  invalid_argument,  // the caller's request or option cannot be served as written
  not_found,         // a file, key, tensor or name does not exist
  io,                // the operating system refused or failed
  corrupt,           // bytes that contradict themselves or their format
  unsupported,       // well formed, but not something this build can run
  out_of_memory,
  out_of_range,  // a number outside what the thing allows
  cancelled,
  failed,  // the computation itself failed (non-finite logits, device error)
};

const char* code_name(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message, std::string hint = {})
      : code_(code), message_(std::move(message)), hint_(std::move(hint)) {}

  bool ok() const { return code_ == Code::ok; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& hint() const { return hint_; }
  // "message (hint)" on one line, as printed to a user.
  std::string text() const { return hint_.empty() ? message_ : message_ + "; " + hint_; }
  // The same failure seen from further out: "context: message".
  Status within(const std::string& context) const { return {code_, context + ": " + message_, hint_}; }

 private:
  Code code_ = Code::ok;
  std::string message_;
  std::string hint_;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {
    CHECK(!status_.ok(), "a Result needs a value or an error");
  }  // NOLINT

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Status& status() const { return status_; }
  T& value() & {
    CHECK(ok(), "{}", status_.text());
    return *value_;
  }
  const T& value() const& {
    CHECK(ok(), "{}", status_.text());
    return *value_;
  }
  T&& value() && {
    CHECK(ok(), "{}", status_.text());
    return std::move(*value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace strata

#define STRATA_CONCAT_(a, b) a##b
#define STRATA_CONCAT(a, b) STRATA_CONCAT_(a, b)
// Returns the failure of an expression of type Status from the enclosing function.
#define RETURN_IF_ERROR(expr)                                                                     \
  do {                                                                                            \
    if (::strata::Status failure_of_expr = (expr); !failure_of_expr.ok()) return failure_of_expr; \
  } while (0)
// ASSIGN_OR_RETURN(auto x, f()): x = value of the Result, or return its failure.
#define ASSIGN_OR_RETURN(lhs, expr) ASSIGN_OR_RETURN_(STRATA_CONCAT(result_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_(result, lhs, expr) \
  auto result = (expr);                      \
  if (!result.ok()) return result.status();  \
  lhs = std::move(result).value()
