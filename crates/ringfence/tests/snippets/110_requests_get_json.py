# expect: error no network; needs requests
import requests

response = requests.get("https://api.github.com/repos/python/cpython", timeout=10)
response.raise_for_status()
data = response.json()
print(data["full_name"], data["stargazers_count"])
