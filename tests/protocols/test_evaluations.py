"""Keys of evaluations cover the state and what clients have trained since."""

import numpy as np

from tests.protocols.test_values import new_values, one_job


def test_what_clients_are_served_has_their_last_jobs_in_its_key():
    """A personal model is evaluated anew when its client has finished another job."""
    values = new_values(algorithm={"name": "standalone", "local": {"learning_rate": 0.5}})
    ref = values.begin(range(8), "cloud")
    before = values.evaluation(ref, 0.0), values.served_at_clients(ref, 0.0)

    values.computed(np.array([3]), [one_job(values, ref, 3)], np.array([2.0]))

    assert (values.evaluation(ref, 1.0), values.served_at_clients(ref, 1.0)) == before
    after = values.evaluation(ref, 2.0), values.served_at_clients(ref, 2.0)
    changed = [left != right for left, right in zip(before[1], after[1], strict=True)]
    assert before[0]["served"][3] != after[0]["served"][3]
    assert changed == [client == 3 for client in range(8)]
