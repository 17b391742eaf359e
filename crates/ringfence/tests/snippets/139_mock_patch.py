# expect: ok
import os
import time
from unittest import mock


def read_setting(path):
    with open(path) as f:
        return f.read().strip()


def wait_and_list(folder):
    time.sleep(30)
    return sorted(os.listdir(folder))


with mock.patch("builtins.open", mock.mock_open(read_data="blue\n")) as fake_open:
    print(read_setting("/etc/color.conf"))
fake_open.assert_called_once_with("/etc/color.conf")

with mock.patch("time.sleep") as sleep, mock.patch.object(os, "listdir", return_value=["b", "a"]):
    print(wait_and_list("/data"), sleep.call_args)

client = mock.MagicMock()
client.get.side_effect = [{"id": 1}, ConnectionError("down")]
print(client.get("/users/1"))
try:
    client.get("/users/2")
except ConnectionError as e:
    print("failed:", e)
print(client.get.call_count, client.mock_calls[0])
with mock.patch.dict(os.environ, {"MODE": "test"}):
    print(os.environ["MODE"])
