"""What the scripts of the papers' tables and figures share.

A script names its claims, its scales and its exhibits (tables and figures), and calls `main`:

    def experiment(data: str, method: str, study: Study) -> Experiment:
        overrides = [*METHODS[method], *REDUCED[study.scale.name]]
        return Experiment(data, method, SCENARIOS / f"{data}.yaml", tuple(overrides))

    def table1(study: Study) -> pd.DataFrame:
        trials = study.run([experiment(data, m, study) for data in study.data for m in METHODS])
        values = gather(trials, lambda run: {"accuracy": final_accuracy(run)})
        print_table(values, "accuracy", published=PAPER_TABLE_1, scale=100, digits=2)
        return values

    PAPER = Paper("title", claims_file, SCALES, {"table1": Exhibit("Table 1: accuracy", table1)})
    if __name__ == "__main__":
        main(PAPER)

An exhibit returns its values, one row per (data, name, seed, figure), against which the claims are
checked. `Study.run` goes on where an earlier call was interrupted and shares runs between exhibits:
a run's folder is found by the digest of its scenario.
"""

from paper.claims import check_claims
from paper.command import main
from paper.experiments import Exhibit, Experiment, Paper, Scale, Trial
from paper.pictures import draw_by_data, new_figure, plot_means, save_figure
from paper.study import Study
from paper.tables import (
    END,
    cohens_d,
    final_accuracy,
    gather,
    mean_accuracy,
    print_figures,
    print_table,
)

__all__ = [
    "END",
    "Exhibit",
    "Experiment",
    "Paper",
    "Scale",
    "Study",
    "Trial",
    "check_claims",
    "cohens_d",
    "draw_by_data",
    "final_accuracy",
    "gather",
    "main",
    "mean_accuracy",
    "new_figure",
    "plot_means",
    "print_figures",
    "print_table",
    "save_figure",
]
