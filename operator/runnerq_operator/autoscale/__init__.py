"""How many workers each pool of a queue should have. Pure: no I/O, no clock, same input same answer.

Reading --measure--> rates --split--> load per pool --recommend--> slots --stabilise--> replicas
"""
