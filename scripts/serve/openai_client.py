"""The server, called by OpenAI's client and LangChain's. Arguments: the ports of HTTP and gRPC."""

import asyncio
import json
import sys

import openai
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

base = f"http://127.0.0.1:{sys.argv[1]}/v1"
client = openai.OpenAI(base_url=base, api_key="none", max_retries=0)
passed = failed = 0


def expect(found, wanted):
    global passed, failed
    if found == wanted:
        passed += 1
    else:
        failed += 1
        print(f"FAIL found {found!r}, wanted {wanted!r}")


def fails(kind, **request):
    try:
        client.chat.completions.create(**{"model": "chat", "messages": messages("A"), **request})
    except kind as error:
        return error.status_code, error.param
    return None


def messages(letter):
    return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"say {letter}"}]


weather = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}

answer = client.chat.completions.create(model="chat", messages=messages("A"), n=2, logprobs=True, top_logprobs=1, seed=1)
expect([choice.message.content for choice in answer.choices], ["Hello world😀"] * 2)
expect([entry.token for entry in answer.choices[0].logprobs.content][:3], ["Hello", " wor", "ld"])
expect(answer.usage.completion_tokens, 16)

chunks = list(client.chat.completions.create(model="chat", messages=messages("A"), stream=True, stream_options={"include_usage": True}))
expect("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices), "Hello world😀")
expect(chunks[-1].usage.completion_tokens, 8)
with client.chat.completions.stream(model="chat", messages=messages("T"), tools=[weather]) as stream:
    stream.until_done()
    expect([(call.function.name, call.function.arguments) for call in stream.get_final_completion().choices[0].message.tool_calls], [("weather", '{"city":"Paris"}')])

expect(client.chat.completions.create(model="chat", messages=messages("C"), stop="STOP").choices[0].message.content, "one ")
expect(client.completions.create(model="chat", prompt=["A", "C"], max_tokens=2).choices[1].text, "one STO")
expect("".join(chunk.choices[0].text for chunk in client.completions.create(model="chat", prompt="A", max_tokens=3, stream=True)), "Hello world")
expect([len(one.embedding) for one in client.embeddings.create(model="embed", input=["a", "b c"]).data], [4, 4])
expect(sorted({"chat", "embed"} & {model.id for model in client.models.list()}), ["chat", "embed"])

expect(fails(openai.NotFoundError, model="none"), (404, "model"))
unsupported = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "array", "uniqueItems": True}}}
expect(fails(openai.BadRequestError, response_format=unsupported), (400, "response_format"))
city = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}, "size": {"type": "integer", "minimum": 1, "maximum": 99}}, "required": ["name", "size"], "additionalProperties": False}
answer = client.chat.completions.create(model="chat", messages=messages("A"), n=2, seed=1, response_format={"type": "json_schema", "json_schema": {"name": "city", "schema": city, "strict": True}})
for choice in answer.choices:
    found = json.loads(choice.message.content)
    expect((sorted(found), 1 <= found["size"] <= 99, choice.finish_reason), (["name", "size"], True, "stop"))
place = {"type": "function", "function": {"name": "place", "parameters": city}}
for choice in ("required", {"type": "function", "function": {"name": "place"}}):
    calls = client.chat.completions.create(model="chat", messages=messages("A"), tools=[place], tool_choice=choice).choices[0].message.tool_calls
    expect([(call.function.name, sorted(json.loads(call.function.arguments))) for call in calls], [("place", ["name", "size"])])
expect(fails(openai.BadRequestError, n=100), (400, "n"))


async def many():
    """Streams side by side, some of which are left in the middle."""
    each = openai.AsyncOpenAI(base_url=base, api_key="none", max_retries=0)

    async def one(i):
        stream = await each.chat.completions.create(model="chat", messages=messages("L" if i % 4 == 0 else "A"), stream=True)
        text = ""
        async for chunk in stream:
            text += chunk.choices[0].delta.content or ""
            if i % 4 == 0 and len(text) > 20:
                await stream.close()
                return None
        return text

    return await asyncio.gather(*(one(i) for i in range(24)))


expect([text for text in asyncio.run(many()) if text is not None], ["Hello world😀"] * 18)

chat = ChatOpenAI(model="chat", base_url=base, api_key="none", max_retries=0)
expect(chat.invoke("say A").content, "Hello world😀")
expect("".join(chunk.content for chunk in chat.stream("say A")), "Hello world😀")
expect([(call["name"], call["args"]) for call in chat.bind_tools([weather]).invoke("say T").tool_calls], [("weather", {"city": "Paris"})])
embeddings = OpenAIEmbeddings(model="embed", base_url=base, api_key="none", check_embedding_ctx_length=False)
expect([len(vector) for vector in embeddings.embed_documents(["a", "b c"])], [4, 4])

print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
