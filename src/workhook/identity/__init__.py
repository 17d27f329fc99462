"""Who calls, and what they may do: accounts, members, repositories, collaborators, tokens, policy, audit."""
