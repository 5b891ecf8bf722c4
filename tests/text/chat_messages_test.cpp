#include "text/chat_messages.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace strata {
namespace {

std::string error_of(const char* messages, bool allow_images = false) {
  const auto out = normal_messages(Json::parse(messages), allow_images);
  return out.ok() ? "no error" : out.status().message();
}

std::string normal(const char* messages, bool allow_images = false) {
  const auto out = normal_messages(Json::parse(messages), allow_images);
  return out.ok() ? out->dump() : "error: " + out.status().message();
}

}  // namespace

TEST(ChatMessages, ErrorsNameThePlaceInTheRequest) {
  const std::pair<const char*, const char*> kCases[] = {
      {"null", "messages: missing"},
      {"[]", "messages: must not be empty"},
      {"\"hi\"", "messages: expected a list, found string"},
      {"{}", "messages: expected a list, found object"},
      {R"(["hi"])", "messages[0]: expected an object, found string"},
      {R"([{"content":"a"}])", "messages[0].role: missing"},
      {R"([{"role":null,"content":"a"}])", "messages[0].role: expected a role, found null"},
      {R"([{"role":"","content":"a"}])", "messages[0].role: expected a role, found an empty string"},
      {R"([{"role":"user"}])", "messages[0].content: missing"},
      {R"([{"role":"user","content":5}])", "messages[0].content: expected a string or a list of parts, found number"},
      {R"([{"role":"user","content":["a"]}])", "messages[0].content[0]: expected an object, found string"},
      {R"([{"role":"user","content":[{"text":"a"}]}])", "messages[0].content[0].type: expected a string"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text: expected a string"},
      {R"([{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":""},{"type":"file"}]}])",
       "messages[1].content[1].type: 'file' cannot be read here"},
      {R"([{"role":"tool","content":[{"type":"input_audio"}]}])",
       "messages[0].content[0].type: 'input_audio' cannot be read here"},
      {R"([{"role":"tool","content":[{"type":"document"}]}])",
       "messages[0].content[0].type: 'document' cannot be read here"},
      {R"([{"role":"user","content":[{"type":"image_url"}]}])",
       "messages[0].content[0].type: 'image_url' cannot be read here"},
      {R"([{"role":"assistant","reasoning_content":[]}])",
       "messages[0].reasoning_content: expected a string, found array"},
      {R"([{"role":"assistant","tool_calls":{}}])", "messages[0].tool_calls: expected a list, found object"},
      {R"([{"role":"assistant","tool_calls":[1]}])", "messages[0].tool_calls[0]: expected an object, found number"},
      {R"([{"role":"assistant","tool_calls":[{"function":1}]}])",
       "messages[0].tool_calls[0].function: expected an object, found number"},
      {R"([{"role":"assistant","tool_calls":[{}]}])",
       "messages[0].tool_calls[0].name: expected the name of a function"},
      {R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"[1]"}}]}])",
       "messages[0].tool_calls[0].function.arguments: expected a JSON object, found array"},
      {R"([{"role":"assistant","tool_calls":[{"name":"f"},{"name":"f","arguments":"{"}]}])",
       "messages[0].tool_calls[1].arguments: not valid JSON at byte 2"},
  };
  for (const auto& [messages, message] : kCases) EXPECT_EQ(error_of(messages), message) << messages;
  EXPECT_EQ(error_of(R"([{"role":"system","content":[{"type":"image"}]}])", true),
            "messages[0].content[0].type: 'image' cannot be read here");
}

TEST(ChatMessages, UnreadableArgumentsAreARequestErrorEveryTime) {
  const auto messages = Json::parse(R"([{"role":"user","content":"a"},{"role":"assistant","content":"","tool_calls":[
      {"id":"1","type":"function","function":{"name":"f","arguments":"{"}}]},{"role":"tool","content":"r"}])");
  for (int i = 0; i < 2; ++i) {
    const auto out = normal_messages(messages, false);
    EXPECT_EQ(out.status().code(), Code::invalid_argument);
    EXPECT_EQ(out.status().message(), "messages[1].tool_calls[0].function.arguments: not valid JSON at byte 2");
  }
}

TEST(ChatMessages, ShapesThatMeanTheSameBecomeTheSame) {
  const std::string wanted = R"([{"role":"assistant","content":""}])";
  for (const char* content :
       {R"("content":null)", R"("content":"")", R"("content":[])", R"("content":[{"type":"text","text":""}])"})
    EXPECT_EQ(normal((R"([{"role":"assistant",)" + std::string(content) + "}]").c_str()), wanted);
  EXPECT_EQ(normal(R"([{"role":"assistant"}])"), wanted);
  EXPECT_EQ(normal(R"([{"role":"assistant","content":null,"tool_calls":null}])"), wanted);
  EXPECT_EQ(normal(R"([{"role":"developer","content":"a"}])"), R"([{"role":"system","content":"a"}])");
  EXPECT_EQ(normal(R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])"),
            R"([{"role":"user","content":"ab"}])");
}

TEST(ChatMessages, ArgumentsBecomeObjectsWithTheirKeyOrder) {
  const auto call = [](const std::string& arguments) {
    return normal((R"([{"role":"assistant","content":"","tool_calls":[{"name":"f")" + arguments + "}]}]").c_str());
  };
  const auto wanted = [](const std::string& arguments) {
    return R"([{"role":"assistant","content":"","tool_calls":[{"name":"f","arguments":)" + arguments + "}]}]";
  };
  EXPECT_EQ(call(R"(,"arguments":"{\"b\":1,\"a\":[2.0]}")"), wanted(R"({"b":1,"a":[2.0]})"));
  EXPECT_EQ(call(R"(,"arguments":{"b":1,"a":2})"), wanted(R"({"b":1,"a":2})"));
  for (const char* nothing :
       {"", R"(,"arguments":null)", R"(,"arguments":"")", R"(,"arguments":" \n")", R"(,"arguments":"{}")"})
    EXPECT_EQ(call(nothing), wanted("{}")) << nothing;
}

TEST(ChatMessages, ImagesStayPartsWhereTheyAreAllowed) {
  const char* const kPicture =
      R"([{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"x"}}]}])";
  EXPECT_EQ(normal(kPicture, true), kPicture);
}

TEST(ChatMessages, ToolsAreAListOfObjectsOrNothing) {
  EXPECT_TRUE(normal_tools(nullptr)->is_null());
  EXPECT_TRUE(normal_tools(Json::array())->is_null());
  EXPECT_EQ(normal_tools(Json::parse(R"([{"type":"function"}])"))->size(), 1u);
  EXPECT_EQ(normal_tools("x").status().message(), "tools: expected a list, found string");
  EXPECT_EQ(normal_tools(Json::parse("[{}, 1]")).status().message(), "tools[1]: expected an object, found number");
}

TEST(ChatMessages, OnlySystemMessagesBehindTheFirstChangeRole) {
  const auto messages =
      Json::parse(R"([{"role":"system","content":"a"},{"role":"user","content":"b"},{"role":"system","content":"c"}])");
  EXPECT_EQ(later_system_as_user(messages)->dump(),
            R"([{"role":"system","content":"a"},{"role":"user","content":"b"},{"role":"user","content":"c"}])");
  EXPECT_FALSE(later_system_as_user(Json::parse(R"([{"role":"system","content":"a"},{"role":"user","content":"b"}])"))
                   .has_value());
}

}  // namespace strata
