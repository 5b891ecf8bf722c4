#include "text/jinja_value.h"

#include <cmath>
#include <limits>

#include "text/unicode.h"

namespace strata::jinja {
namespace {

constexpr size_t kIndexFrom = 9;  // dicts with fewer entries are searched in order
constexpr int kKeyDepth = 16;     // of tuples inside tuples as keys

// A text that is the same for equal keys and only for them; false when the value cannot be a key.
bool append_identity(const Value& key, std::string& out, int depth) {
  switch (key.kind) {
    case Kind::string:
      out += fmt::format("s{}:", key.length);
      out += key.view();
      return true;
    case Kind::boolean:
    case Kind::integer:
      out += fmt::format("i{};", key.as_int());
      return true;
    case Kind::big_integer:
      out += fmt::format("i{};", key.big);
      return true;
    case Kind::real:
      if (key.real == std::floor(key.real) && std::fabs(key.real) < 9.2e18)
        out += fmt::format("i{};", static_cast<int64_t>(key.real));
      else
        out += fmt::format("r{};", key.real);
      return true;
    case Kind::list:
      if (key.list->kind != ListKind::tuple || depth >= kKeyDepth) return false;
      out += fmt::format("t{}:", key.list->items.size());
      for (const Value& item : key.list->items)
        if (!append_identity(item, out, depth + 1)) return false;
      return true;
    case Kind::dict:
      return false;
    case Kind::none:
    case Kind::undefined:
    case Kind::missing:
      out += fmt::format("k{};", static_cast<int>(key.kind));
      return true;
    default:
      out += fmt::format("p{};", static_cast<const void*>(key.object));
      return true;
  }
}

// Messages may quote request data of any size.
std::string shortened(std::string_view message) {
  constexpr size_t kMaxMessage = 2000;
  if (message.size() <= kMaxMessage) return std::string(message);
  return to_valid_utf8(message.substr(0, kMaxMessage)) + "...";
}

}  // namespace

Value Value::missing() {
  Value v;
  v.kind = Kind::missing;
  return v;
}
Value Value::none() {
  Value v;
  v.kind = Kind::none;
  return v;
}
Value Value::of(bool b) {
  Value v;
  v.kind = Kind::boolean;
  v.boolean = b;
  return v;
}
Value Value::of(int64_t i) {
  Value v;
  v.kind = Kind::integer;
  v.integer = i;
  return v;
}
Value Value::of(double d) {
  Value v;
  v.kind = Kind::real;
  v.real = d;
  return v;
}
std::string_view Value::view() const {
  return text->text.bytes().substr(0, length);
}

Value list_value(List* list) {
  Value v;
  v.kind = Kind::list;
  v.list = list;
  return v;
}
Value dict_value(Dict* dict, Kind kind) {
  Value v;
  v.kind = kind;
  v.dict = dict;
  return v;
}

const Value* Dict::find_by_identity(const std::string& identity) const {
  if (!index_.empty()) {
    const auto at = index_.find(identity);
    return at == index_.end() ? nullptr : &entries_[at->second].value;
  }
  for (const Entry& entry : entries_) {
    std::string other;
    append_identity(entry.key, other, 0);
    if (other == identity) return &entry.value;
  }
  return nullptr;
}

const Value* Dict::find(std::string_view key) const {
  if (!index_.empty()) return find_by_identity(fmt::format("s{}:{}", key.size(), key));
  for (const Entry& entry : entries_)
    if (entry.key.is(Kind::string) && entry.key.view() == key) return &entry.value;
  return nullptr;
}

const Value* Dict::find(const Value& key) const {
  if (key.is(Kind::string)) return find(key.view());
  std::string identity;
  return append_identity(key, identity, 0) ? find_by_identity(identity) : nullptr;
}

bool Dict::set(const Value& key, const Value& value) {
  std::string identity;
  if (!append_identity(key, identity, 0)) return false;
  if (const Value* old = find_by_identity(identity)) {
    *const_cast<Value*>(old) = value;
    return true;
  }
  entries_.push_back({key, value});
  if (entries_.size() == kIndexFrom) {
    for (size_t i = 0; i < entries_.size(); ++i) {
      std::string name;
      append_identity(entries_[i].key, name, 0);
      index_.emplace(std::move(name), i);
    }
  } else if (entries_.size() > kIndexFrom) {
    index_.emplace(std::move(identity), entries_.size() - 1);
  }
  return true;
}

Value Context::fail(std::string cause, Code code) {
  const std::string where =
      line > 0 ? fmt::format("{} line {}", name_, line) : name_;  // line 0: before rendering began
  if (status_.ok()) status_ = Status(code, where + ": " + shortened(cause));
  return {};
}

Value Context::raise(std::string_view message) {
  if (!status_.ok()) return {};
  raised_ = true;
  status_ = Status(Code::invalid_argument, message.empty() ? name_ + " refuses this conversation" : shortened(message));
  return {};
}

bool Context::spend(uint64_t steps) {
  steps_ += steps;
  if (steps_ > limits_.steps) fail(fmt::format("more than {} steps of work", limits_.steps), Code::out_of_range);
  return !failed();
}

bool Context::reserve(size_t bytes) {
  if (bytes > limits_.value_bytes - bytes_) {
    fail(fmt::format("values would take more than {} bytes", limits_.value_bytes), Code::out_of_range);
    return false;
  }
  bytes_ += bytes;
  return !failed();
}

Value Context::string(std::string_view bytes, bool trusted) {
  return string(MarkedText(bytes, trusted));
}

Value Context::string(MarkedText text) {
  if (!reserve(text.size())) return {};
  auto* object = make<TextObject>();
  object->text = std::move(text);
  object->growable = true;
  Value v;
  v.kind = Kind::string;
  v.length = static_cast<uint32_t>(object->text.size());
  v.text = object;
  return v;
}

Value Context::substring(const Value& from, size_t begin, size_t end) {
  if (begin == 0 && end == from.length) return from;
  if (!reserve(end - begin)) return {};
  MarkedText text;
  text.append(from.text->text, begin, end);
  return string(std::move(text));
}

Value Context::concat(const Value& a, const Value& b) {
  if (failed()) return {};
  if (b.length == 0) return a;
  if (a.length == 0) return b;
  const size_t total = static_cast<size_t>(a.length) + b.length;
  if (total > std::numeric_limits<uint32_t>::max()) return fail("text longer than 4 GiB", Code::out_of_range);
  Value out = a;
  // The text that `a` ends is continued in place: building a long text piece by piece stays linear.
  if (!a.text->growable || a.length != a.text->text.size()) {
    if (!reserve(2 * total)) return {};
    MarkedText text;
    text.reserve(2 * total);
    text.append(a.text->text, 0, a.length);
    out = string(std::move(text));
    if (failed()) return {};
  } else if (!reserve(2 * static_cast<size_t>(b.length))) {
    return {};
  }
  out.text->text.append(b.text->text, 0, b.length);
  out.length = static_cast<uint32_t>(total);
  return out;
}

Value Context::undefined(std::string message) {
  reserve(message.size());
  auto* object = make<UndefinedObject>();
  object->message = std::move(message);
  Value v;
  v.undefined = object;
  return v;
}

List* Context::list(ListKind kind) {
  auto* made = make<List>();
  made->kind = kind;
  return made;
}

Dict* Context::dict() {
  return make<Dict>();
}

void Context::push(List* list, const Value& item) {
  if (reserve(2 * sizeof(Value))) list->items.push_back(item);
}

void Context::set(Dict* dict, const Value& key, const Value& value) {
  const size_t key_bytes = key.is(Kind::string) ? key.length : 0;
  if (!reserve(2 * sizeof(Dict::Entry) + 64 + key_bytes) || !spend(1)) return;
  if (!dict->set(key, value)) fail(fmt::format("unhashable type: '{}'", type_name(key)));
}

Value Context::from_json(const Json& json, int depth) {
  if (depth > limits_.depth)
    return fail(fmt::format("data nested deeper than {} levels", limits_.depth), Code::out_of_range);
  if (!spend(1)) return {};
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value::of(json.get<bool>());
    case Json::value_t::number_integer:
      return Value::of(json.get<int64_t>());
    case Json::value_t::number_unsigned: {
      const auto number = json.get<uint64_t>();
      if (number <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        return Value::of(static_cast<int64_t>(number));
      Value v;
      v.kind = Kind::big_integer;
      v.big = number;
      return v;
    }
    case Json::value_t::number_float:
      return Value::of(json.get<double>());
    case Json::value_t::string: {
      const auto& text = json.get_ref<const std::string&>();
      return is_valid_utf8(text) ? string(text, false) : string(to_valid_utf8(text), false);
    }
    case Json::value_t::array: {
      List* made = list();
      for (const auto& item : json) {
        push(made, from_json(item, depth + 1));
        if (failed()) return {};
      }
      return list_value(made);
    }
    case Json::value_t::object: {
      Dict* made = dict();
      for (const auto& [key, item] : json.items()) {
        set(made, from_json(Json(key), depth + 1), from_json(item, depth + 1));
        if (failed()) return {};
      }
      return dict_value(made);
    }
    default:
      return Value::none();
  }
}

}  // namespace strata::jinja
