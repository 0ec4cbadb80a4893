"""What programs ask of OpenAI's interface, with its own client: python3 client.py URL KEY. It prints nothing if all is as it is to be."""

import asyncio
import sys

import openai

url, key = sys.argv[1:]
client = openai.OpenAI(base_url=url + "/v1", api_key=key, max_retries=0)


def refused(kind, ask):
    try:
        ask()
    except kind as e:
        return e
    raise AssertionError(f"no {kind.__name__}")


assert [m.id for m in client.models.list()] == ["m"]

# A text, whole and as a stream, alone and several at once.
whole = client.completions.create(model="m", prompt="!#", max_tokens=12, temperature=0, logprobs=2)
assert whole.object == "text_completion" and whole.choices[0].finish_reason == "length", whole
assert whole.usage.prompt_tokens == 2 and whole.usage.completion_tokens == 12 and whole.usage.total_tokens == 14, whole
assert len(whole.choices[0].logprobs.token_logprobs) == 12 and len(whole.choices[0].logprobs.top_logprobs[0]) == 2, whole
parts = list(client.completions.create(model="m", prompt="!#", max_tokens=12, temperature=0, stream=True, stream_options={"include_usage": True}))
assert "".join(c.text for p in parts for c in p.choices) == whole.choices[0].text
assert parts[-1].choices == [] and parts[-1].usage.completion_tokens == 12, parts[-1]
several = client.completions.create(model="m", prompt=["!#", [0, 1]], n=2, max_tokens=3, seed=3)
assert [c.index for c in several.choices] == [0, 1, 2, 3], several
biased = client.completions.create(model="m", prompt="!", max_tokens=4, temperature=0, logit_bias={"5": 100})
assert biased.choices[0].text == "\x05" * 4, biased
stopped = client.completions.create(model="m", prompt="!#", max_tokens=12, temperature=0, stop=whole.choices[0].text[3:5])
assert stopped.choices[0].finish_reason == "stop" and whole.choices[0].text.startswith(stopped.choices[0].text), stopped
slid = client.completions.create(model="m", prompt="!#", max_tokens=100, temperature=0, extra_body={"slide": True, "keep": 2})
assert slid.usage.completion_tokens == 100, slid

# A conversation. The model has no tokens for letters, so the template of the test writes none.
talk = [{"role": "user", "content": [{"type": "text", "text": "#$"}]}]
answer = client.chat.completions.create(model="m", messages=talk, max_completion_tokens=8, temperature=0, logprobs=True, top_logprobs=3)
message = answer.choices[0].message
assert message.role == "assistant" and len(message.content) == 8, answer
assert len(answer.choices[0].logprobs.content) == 8 and len(answer.choices[0].logprobs.content[0].top_logprobs) == 3, answer
chunks = list(client.chat.completions.create(model="m", messages=talk, max_completion_tokens=8, temperature=0, stream=True))
assert chunks[0].choices[0].delta.role == "assistant" and chunks[-1].choices[0].finish_reason == "length", chunks
assert "".join(c.choices[0].delta.content or "" for c in chunks) == message.content, chunks
tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
assert client.chat.completions.create(model="m", messages=talk, tools=tools, max_tokens=2).usage.completion_tokens == 2

# Errors are those of the client's own kinds.
assert refused(openai.BadRequestError, lambda: client.completions.create(model="m", prompt="!", max_tokens=-1)).param == "max_tokens"
e = refused(openai.BadRequestError, lambda: client.chat.completions.create(model="m", messages=talk, response_format={"type": "json_object"}))
assert e.param == "response_format", e
refused(openai.NotFoundError, lambda: client.completions.create(model="other", prompt="!"))
refused(openai.AuthenticationError, lambda: openai.OpenAI(base_url=url + "/v1", api_key="wrong", max_retries=0).models.list())


# A hundred clients at once; each gets what it would get alone, and half of those that stream go away early.
async def one(i):
    async with openai.AsyncOpenAI(base_url=url + "/v1", api_key=key, max_retries=20) as c:
        if i % 2 == 0:
            return (await c.completions.create(model="m", prompt=[i % 40, 1], max_tokens=10, seed=i)).choices[0].text
        text = ""
        stream = await c.completions.create(model="m", prompt=[i % 40, 1], max_tokens=10, seed=i, stream=True)
        async for p in stream:
            if i % 4 == 1:
                await stream.close()
                return None
            text += "".join(x.text for x in p.choices)
        return text


async def all():
    return await asyncio.gather(*(one(i) for i in range(100)))


for i, text in enumerate(asyncio.run(all())):
    if text is not None and i % 10 < 2:
        assert text == client.completions.create(model="m", prompt=[i % 40, 1], max_tokens=10, seed=i).choices[0].text, i
