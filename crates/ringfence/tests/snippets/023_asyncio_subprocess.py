# expect: error no child processes
import asyncio


async def run(*command):
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    stdout, _ = await process.communicate()
    return process.returncode, stdout.decode().strip()


async def main():
    code, output = await run("date", "+%Y")
    print(f"exit code {code}: {output}")


asyncio.run(main())
