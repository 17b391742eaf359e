# expect: ok; needs requests
import requests

FALLBACK = {"EUR": 1.0, "USD": 1.1}


def exchange_rates(base="EUR"):
    try:
        response = requests.get("https://rates.example.invalid/latest", params={"base": base}, timeout=3)
        response.raise_for_status()
        return response.json()["rates"]
    except requests.exceptions.RequestException as e:
        print("Request failed:", type(e).__name__)
        return FALLBACK


rates = exchange_rates()
print(f"10 EUR = {10 * rates['USD']:.2f} USD")

request = requests.Request("GET", "https://example.com/search", params={"q": "a b"}).prepare()
print(request.method, request.url)
