"""Where a region begins and ends around suspended code: pieces of program that torch.autocast and autoamp.autocast run
in the same way. `torch_scopes.json` has torch's results: `python scopes.py torch_scopes.json` in a venv with torch
records them."""
import asyncio
import datetime
import json
import sys


def generators(autocast, run):
    def body():
        with autocast():
            yield run()
        yield run()

    @autocast()
    def decorated():
        yield run()

    suspended = body()
    yield next(suspended)
    yield run()
    yield next(suspended)
    yield run()
    yield next(decorated())


def closed(autocast, run):
    def body():
        with autocast():
            yield run()

    suspended = body()
    yield next(suspended)
    suspended.close()
    yield run()


def coroutines(autocast, run):
    async def body():
        with autocast():
            await asyncio.sleep(0)
            return run()

    @autocast()
    async def decorated():
        return run()

    yield asyncio.run(body())
    yield run()
    yield asyncio.run(decorated())


def tasks(autocast, run):
    found = []

    async def inside():
        with autocast():
            found.append(run())
            await asyncio.sleep(0)
            found.append(run())

    async def beside():
        found.append(run())
        await asyncio.sleep(0)
        found.append(run())

    async def both():
        await asyncio.gather(inside(), beside())

    asyncio.run(both())
    yield from found
    yield run()


CASES = (generators, closed, coroutines, tasks)

if __name__ == "__main__":
    import torch

    def ran():
        product = torch.ones(2, 2) @ torch.ones(2, 2)
        return "outside" if product.dtype == torch.float32 else "inside"

    def region():
        return torch.autocast("cpu", dtype=torch.bfloat16)

    answers = {case.__name__: list(case(region, ran)) for case in CASES}
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump({"version": torch.__version__.partition("+")[0], "date": datetime.date.today().isoformat(), "answers": answers},
                  file, indent=1)
        file.write("\n")
