"""Tables as people bring them: is a bad answer always warned about, and a good one seldom?"""
