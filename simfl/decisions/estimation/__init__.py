"""How long will it take, judging by how long it took?"""
