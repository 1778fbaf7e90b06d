"""What a sentence is about: each topic makes its words more likely, whatever their kind; data only."""

TOPICS = (
    """cuisinier boulanger pâtissier épicier serveur client manger préparer cuisiner goûter servir boire
        pain gâteau fromage soupe tarte vin restaurant cuisine boulangerie marché assiette casserole
        couteau recette délicieux sucré repas""",
    """élève étudiant instituteur professeur enseignant lycéen écolier lire étudier expliquer apprendre
        écrire corriger livre cahier stylo dictionnaire école lycée université bibliothèque examen science
        question intelligent studieux""",
    """ministre président député sénateur candidat citoyen électeur gouvernement parti parlement assemblée
        commission loi réforme décision élection vote proposer voter défendre adopter critiquer politique
        social national économique""",
    """fermier paysan agriculteur jardinier berger planter arroser cultiver récolter nourrir vache mouton
        cheval poule arbre fleur pommier blé champ ferme village campagne tracteur fertile sauvage""",
    """artiste peintre musicien chanteur acteur danseur poète écrivain peindre composer interpréter
        admirer chanter tableau film chanson symphonie poème roman musée théâtre opéra concert exposition
        festival célèbre romantique""",
    """policier juge avocat accusé voleur témoin détective inspecteur prisonnier arrêter interroger
        accuser condamner voler procès prison tribunal enquête dossier vérité mensonge arme police
        coupable secret""",
    """voyageur touriste pilote conducteur passager voyager visiter arriver partir traverser conduire
        prendre train avion bateau voiture valise hôtel gare aéroport plage mer île montagne voyage
        croisière lointain""",
    """médecin infirmier patient chirurgien pharmacien blessé dentiste soigner guérir souffrir hôpital
        clinique pharmacie ambulance santé traitement maladie épidémie ordonnance douleur malade grave""",
    """ouvrier employé directeur patron banquier commerçant vendeur client acheter vendre travailler
        entreprise société banque usine magasin budget salaire dette crédit contrat économie production
        commercial financier industriel""",
    """père mère frère sœur enfant garçon fille oncle tante cousin ami voisin aimer inviter embrasser
        jouer famille maison jardin jouet poupée cadeau fête mariage anniversaire amour joie bonheur
        tendresse heureux content""",
    """soldat guerrier commandant chevalier roi prince reine empereur combattre menacer attaquer protéger
        armée guerre bataille château forteresse épée bouclier couronne royaume victoire courageux
        puissant cruel""",
    """joueur entraîneur footballeur nageur coureur cycliste champion athlète arbitre gagner perdre courir
        nager équipe club match course tournoi championnat finale stade piscine gymnase ballon vélo
        maillot rapide""",
)
