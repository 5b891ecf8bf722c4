// Values of the template language and the context that owns them while one template is rendered.
// Every list, dict and string lives in the context until the rendering ends, so values are plain words to copy, cycles
// are harmless, and nothing is freed recursively. What a template may cost (steps, bytes) is counted here. The first
// failure sticks: later calls do nothing, and the caller looks at `failed()` before it trusts a value.
#pragma once

#include <cstdint>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/jinja_text.h"

namespace strata::jinja {

struct Limits {
  size_t source_bytes = 1 << 20;
  int nesting = 200;  // of tags and brackets in the source
  int depth = 400;    // of evaluation, macros included, and of nested values
  uint64_t steps = 20'000'000;
  size_t value_bytes = 256 << 20;  // everything the template makes, freed or not
  size_t output_bytes = 64 << 20;
};

// Base of what the context owns.
class HeapObject {
 public:
  virtual ~HeapObject() = default;
};

enum class Kind : uint8_t {
  missing,
  undefined,
  none,
  boolean,
  integer,
  big_integer,
  real,
  string,
  list,
  dict,
  name_space,
  macro,
  method,
  function,
  loop
};

struct TextObject;
struct UndefinedObject;
struct MethodObject;
struct Builtin;
class List;
class Dict;

struct Value {
  Kind kind = Kind::undefined;
  uint32_t length = 0;  // string: bytes of `text` that belong to this value
  union {
    bool boolean;
    int64_t integer;
    uint64_t big;  // big_integer: above the range of `integer`
    double real;
    TextObject* text;
    const UndefinedObject* undefined;  // may be null
    List* list;
    Dict* dict;  // dict and name_space
    MethodObject* method;
    const Builtin* function;
    HeapObject* object = nullptr;  // macro and loop: the interpreter's own
  };

  static Value missing();  // "not given"; never seen by a template
  static Value none();
  static Value of(bool v);
  static Value of(int64_t v);
  static Value of(double v);
  bool is(Kind k) const { return kind == k; }
  bool is_number() const { return kind >= Kind::boolean && kind <= Kind::real; }
  bool is_integral() const { return kind == Kind::boolean || kind == Kind::integer; }
  int64_t as_int() const { return kind == Kind::boolean ? boolean : integer; }  // is_integral() only
  std::string_view view() const;  // string only; valid until a text is appended to
};

struct TextObject : HeapObject {
  MarkedText text;
  bool growable = false;  // owned by one rendering: others may append at its end
};
struct UndefinedObject : HeapObject {
  std::string message;  // what to say when it is used
};

enum class ListKind : uint8_t { list, tuple, range, view, generator };  // generator: can be read once, always true

class List : public HeapObject {
 public:
  ListKind kind = ListKind::list;
  std::vector<Value> items;
};

// Keeps the order of insertion. Keys are equal as in Python: 1, 1.0 and true are one key; marks of trust do not count.
class Dict : public HeapObject {
 public:
  struct Entry {
    Value key, value;
  };
  const std::vector<Entry>& entries() const { return entries_; }
  const Value* find(std::string_view key) const;
  const Value* find(const Value& key) const;       // null also when the key cannot be one (a list, a dict)
  bool set(const Value& key, const Value& value);  // false when the key cannot be one

 private:
  const Value* find_by_identity(const std::string& identity) const;

  std::vector<Entry> entries_;
  std::map<std::string, size_t, std::less<>> index_;  // identity of a key to its entry, once there are many
};

class Context {
 public:
  Context(const Limits& limits, std::string_view name) : limits_(limits), name_(name) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Failures. `fail` returns an undefined value so that a caller can return it.
  Value fail(std::string cause, Code code = Code::failed);
  Value raise(std::string_view message);  // the template's own words
  bool failed() const { return !status_.ok(); }
  bool raised() const { return raised_; }  // the failure came from raise_exception
  const Status& status() const { return status_; }
  int line = 0;                // of the template, for messages
  std::optional<std::tm> now;  // what strftime_now prints; templates never read the clock

  // Budgets; false (and failed) once used up.
  bool spend(uint64_t steps);
  bool spend_bytes(size_t bytes) { return spend(bytes / 64 + 1); }  // reading that much text
  bool reserve(size_t bytes);
  const Limits& limits() const { return limits_; }

  template <class T>
  T* make() {
    reserve(sizeof(T) + sizeof(void*));
    auto owned = std::make_unique<T>();
    T* object = owned.get();
    objects_.push_back(std::move(owned));
    return object;
  }
  Value string(std::string_view bytes, bool trusted);
  Value string(MarkedText text);
  Value substring(const Value& from, size_t begin, size_t end);  // byte offsets
  Value concat(const Value& a, const Value& b);                  // strings
  Value undefined(std::string message);
  List* list(ListKind kind = ListKind::list);
  Dict* dict();
  void push(List* list, const Value& item);
  void set(Dict* dict, const Value& key, const Value& value);  // fails for keys that cannot be one

  // Request data: every string is untrusted.
  Value from_json(const Json& json, int depth = 0);

 private:
  Limits limits_;
  std::string name_;
  Status status_;
  bool raised_ = false;
  uint64_t steps_ = 0;
  size_t bytes_ = 0;
  std::vector<std::unique_ptr<HeapObject>> objects_;
};

Value list_value(List* list);
Value dict_value(Dict* dict, Kind kind = Kind::dict);

// Python's view of values.
bool truthy(const Value& v);
const char* type_name(const Value& v);         // "str", "NoneType"
std::string type_with_object(const Value& v);  // "str object", "None": as undefined values name their owner
bool equal(Context& ctx, const Value& a, const Value& b, int depth = 0);
enum class Order { less, equal, greater, unordered };
// Fails when the two have no order; `sign` names the comparison in the message.
Order compare(Context& ctx, const Value& a, const Value& b, const char* sign, int depth = 0);
// The places of `keys` in ascending (or descending) order; equal ones keep their order. Fails when two have no order.
std::vector<size_t> sorted_order(Context& ctx, const std::vector<Value>& keys, bool descending);
bool contains(Context& ctx, const Value& container, const Value& item);
// The items that iterating gives (dict: keys, string: characters); fails for what cannot be iterated. A generator is
// emptied.
List* iterate(Context& ctx, const Value& v);
// Number of items or characters; fails for what has no length.
int64_t length_of(Context& ctx, const Value& v);
double as_real(const Value& v);  // numbers only

}  // namespace strata::jinja
