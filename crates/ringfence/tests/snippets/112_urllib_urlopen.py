# expect: error no network
import json
from urllib.request import Request, urlopen

url = "https://api.open-meteo.com/v1/forecast?latitude=52.52&longitude=13.41&current_weather=true"
request = Request(url, headers={"User-Agent": "example-script/1.0"})
with urlopen(request, timeout=10) as response:
    weather = json.loads(response.read())["current_weather"]
print(f"Berlin: {weather['temperature']} °C, wind {weather['windspeed']} km/h")
