"""Core stability of a predictor: no coalition of agents is better off with another predictor.

Ray Chaudhury, Li, Kang, Li, Mehta: Fairness in Federated Learning via Core-Stability, NeurIPS 2022,
arXiv 2211.02091.

    n, i, S        agents, one of them, a coalition of them
    theta, theta'  the predictor in question, another one, in P
    M_i, L_i, u_i  offset, mean loss, utility M_i - L_i > 0             `Agents`
    w_i, W, W_S    weight, sum over all agents, sum over S (w = 1: n and |S|)
    r_i            ratio u_i(theta') / u_i(theta)

S blocks theta if some theta' has (W_S / W) u_i(theta') >= u_i(theta) for all i in S, with strict
inequality for one of them (Definitions 1 and 6). P is the set of predictors under which no agent's
utility is negative, as the proof of Theorem 2 requires; it is compact for every sensible offset.
Every question is answered by an `Answer`.
"""
