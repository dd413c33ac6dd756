"""The words that the pages themselves add, in two languages."""

WORDS = {
    "en": {
        "time": "Time",
        "time_value": "about {minutes} minutes to read, {seconds} s to run on one core",
        "notebook": "Download the notebook",
        "solution": "Solution",
        "solutions": "Solutions",
        "checks": "### Exercises with a check\n\nThe answer to each is a function. "
        "Write it, for example with NumPy, and pass it to `kerasseq.exercises.check`: "
        "it calls the function with inputs that are drawn, and gives a hint if the "
        "result is wrong.\n\n```python\nfrom kerasseq import exercises\n\n"
        'exercises.check("{number}", {name})\n```\n\n{questions}',
        "number": "The number on three backends",
        "number_about": "The experiment leaves one number in `result`: {name}. The "
        "same tutorial with the same seeds, on each backend:",
        "seeds": "With other seeds of the weights, {backend} gives {first} and "
        "{second}: a difference between backends means no more than one between seeds.",
        "no_seeds": "No weights are drawn at random here: the number is the same with "
        "every seed.",
        "backend": "backend",
        "result": "number",
        "cpu": "CPU seconds",
        "version": "version",
        "date": "date",
        "executed": "The outputs and figures of this page come from kerasseq "
        "{kerasseq} with Keras {keras} on {backend}, executed on {date}.",
        "install": "## Before you start\n\nThe next cell installs kerasseq, and the "
        "one after it chooses the backend; restart the kernel if you change it later. "
        "You need no GPU: everything is small enough for the CPU.",
        "install_comment": "# Installed already? Then skip this cell",
        "copy_comment": "# the folder of your copy of the repository",
        "choose_comment": '# "torch", "jax" or "tensorflow": the installed one',
    },
    "fr": {
        "time": "Durée",
        "time_value": "environ {minutes} minutes de lecture, {seconds} s de calcul sur "
        "un cœur",
        "notebook": "Télécharger le notebook",
        "solution": "Corrigé",
        "solutions": "Corrigés",
        "checks": "### Exercices avec vérification\n\nLa réponse à chacun est une "
        "fonction. Écrivez-la, par exemple avec NumPy, et passez-la à "
        "`kerasseq.exercises.check`\u202f: la fonction est appelée avec des entrées "
        "tirées au hasard, et un indice est donné si le résultat est faux.\n\n"
        "```python\nfrom kerasseq import exercises\n\n"
        'exercises.check("{number}", {name}, language="fr")\n```\n\n{questions}',
        "number": "Le nombre sur trois backends",
        "number_about": "L’expérience laisse un nombre dans `result`\u202f: {name}. Le "
        "même tutoriel avec les mêmes graines, sur chaque backend\u202f:",
        "seeds": "Avec d’autres graines pour les poids, {backend} donne {first} et "
        "{second}\u202f: un écart entre backends ne dit rien de plus qu’un écart entre "
        "graines.",
        "no_seeds": "Aucun poids n’est tiré au hasard ici\u202f: le nombre est le même "
        "avec toute graine.",
        "backend": "backend",
        "result": "nombre",
        "cpu": "secondes de CPU",
        "version": "version",
        "date": "date",
        "executed": "Les sorties et les figures de cette page proviennent de kerasseq "
        "{kerasseq} avec Keras {keras} sur {backend}, exécuté le {date}.",
        "install": "## Avant de commencer\n\nLa cellule suivante installe kerasseq, et "
        "celle d’après choisit le backend\u202f; redémarrez le noyau si vous en "
        "changez plus tard. Un GPU n’est pas nécessaire\u202f: tous les calculs sont "
        "assez petits pour le CPU.",
        "install_comment": "# Déjà installé ? Alors passez cette cellule",
        "copy_comment": "# le dossier de votre copie du dépôt de kerasseq",
        "choose_comment": '# "torch", "jax" ou "tensorflow" : celui qui est installé',
    },
}
BACKENDS = {"torch": "PyTorch", "jax": "JAX", "tensorflow": "TensorFlow"}
