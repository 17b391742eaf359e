# expect: error KeyError
import os

# The service needs a key in the environment
api_key = os.environ["WEATHER_API_KEY"]
print("Key found, length", len(api_key))
