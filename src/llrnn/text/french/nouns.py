"""The nouns, by kind and gender, the frequent ones first: data only.

A word with a star is used in the singular only (`pain*`: some bread). Verbs and adjectives select on the kinds.
"""

# People: the feminine follows the rule for adjectives (voisin, voisine; boulanger, boulangère; élève, élève).
PEOPLE_REGULAR = """
ami voisin président élève étudiant ministre avocat journaliste client cousin ouvrier habitant artiste patient
policier employé marchand député touriste boulanger infirmier musicien fermier paysan candidat adulte collègue
peintre invité citoyen commerçant cuisinier secrétaire dentiste gardien adolescent philosophe architecte
savant pilote camarade écrivain assistant dirigeant enseignant scientifique pianiste propriétaire étranger
prisonnier conseiller pharmacien comédien mécanicien électricien technicien historien magicien chirurgien
lycéen collégien pâtissier jardinier épicier banquier caissier couturier bijoutier romancier berger passager
messager héritier cavalier écolier douanier guerrier adjoint agent violoniste cycliste fleuriste guitariste
notaire bibliothécaire locataire libraire vétérinaire interprète guide adversaire bourgeois marquis retraité
blessé délégué accusé associé fiancé marié magistrat soldat apprenti orphelin villageois manifestant militant
participant représentant commandant remplaçant gagnant survivant correspondant concurrent géant mendiant
débutant négociant fabricant détective économiste chimiste géographe photographe astronome mathématicien
physicien politicien opticien informaticien esthéticien académicien végétarien gendarme juge arbitre athlète
gymnaste alpiniste cinéaste dramaturge linguiste psychologue biologiste juriste garagiste antiquaire
actionnaire fonctionnaire commissaire partenaire stagiaire milliardaire aristocrate diplomate démocrate
bénévole responsable spécialiste capitaliste socialiste pacifiste optimiste perfectionniste humoriste
caricaturiste styliste standardiste urbaniste plombier menuisier charpentier cordonnier teinturier serrurier
hôtelier costumier chapelier aventurier châtelain bohémien sorcier baron patron espion champion vigneron
montagnard campagnard exilé rescapé réfugié diplômé licencié inconnu disparu élu
"""
# People whose -teur becomes -trice, and people whose -eur becomes -euse.
PEOPLE_TRICE = """
directeur acteur lecteur spectateur instituteur conducteur inspecteur agriculteur traducteur inventeur
rédacteur éditeur dessinateur créateur animateur explorateur électeur réalisateur consommateur facteur
sénateur organisateur moniteur producteur observateur navigateur auditeur éducateur fondateur admirateur
collaborateur narrateur tuteur amateur médiateur orateur aviateur compositeur illustrateur administrateur
coordinateur perturbateur décorateur restaurateur formateur libérateur négociateur cultivateur expéditeur
présentateur programmateur
"""
PEOPLE_EUSE = """
chanteur joueur vendeur voyageur danseur coiffeur serveur chercheur travailleur visiteur chasseur pêcheur
nageur coureur voleur promeneur acheteur entraîneur footballeur menteur skieur plongeur programmeur randonneur
livreur collectionneur entrepreneur campeur dompteur balayeur tricheur rêveur conteur jongleur maquilleur
cascadeur basketteur handballeur éleveur dépanneur carreleur
"""
PEOPLE_PAIRS = """
homme/femme enfant/enfant garçon/fille père/mère frère/sœur roi/reine oncle/tante prince/princesse neveu/nièce
copain/copine maître/maîtresse poète/poétesse héros/héroïne hôte/hôtesse duc/duchesse comte/comtesse
compagnon/compagne parrain/marraine empereur/impératrice ambassadeur/ambassadrice veuf/veuve jumeau/jumelle
dieu/déesse
"""

MASCULINE = {
    "person": """médecin professeur pompier marin bûcheron chevalier capitaine général moine évêque
        ingénieur témoin""",
    "animal": """chien chat cheval oiseau poisson lapin loup renard ours cochon mouton bœuf canard coq âne
        lion tigre éléphant singe serpent crocodile écureuil hérisson hibou papillon insecte moustique rat
        cerf sanglier aigle corbeau pigeon perroquet dauphin requin chameau zèbre escargot crapaud lézard
        hamster faucon cygne chevreuil taureau veau agneau poulain merle moineau castor blaireau homard
        crabe saumon phoque pingouin kangourou léopard buffle vautour héron caniche""",
    "food": """pain* fromage poulet fruit légume riz* beurre* chocolat* sucre* sel* miel* jambon* œuf
        bonbon raisin* citron melon abricot haricot artichaut champignon concombre oignon poireau navet
        chou radis ananas bouillon rôti caramel* nougat* piment cornichon saucisson poivre* persil*
        basilic*""",
    "dish": "gâteau dessert biscuit sandwich potage gratin yaourt ragoût croissant flan sorbet pâté sablé",
    "flavour": """chocolat* citron* fromage* miel* caramel* abricot oignon poireau champignon jambon*
        poivre*""",
    "settlement": "village hameau quartier bourg pays",
    "drink": "vin café thé lait* jus cidre* sirop champagne* cognac* rhum* apéritif",
    "plant": """arbre chêne sapin pommier cerisier rosier blé* buisson hêtre platane érable olivier
        palmier peuplier saule tilleul bouleau noisetier noyer poirier prunier figuier citronnier oranger
        lilas coquelicot tournesol jasmin géranium lierre roseau maïs* trèfle cactus bambou frêne
        marronnier châtaignier laurier houx abricotier""",
    "object": """sac couteau verre panier outil téléphone ordinateur marteau parapluie stylo crayon cahier
        lit fauteuil tapis miroir rideau coussin vase clou balai seau bijou collier bracelet jouet ballon
        appareil cadeau coffre tiroir meuble canapé four réfrigérateur piano violon tambour pinceau peigne
        savon briquet cendrier chandelier tabouret placard bocal pot tonneau flacon bol fusil pistolet
        sabre bouclier drapeau cadenas tuyau moteur écran clavier casque ruban rasoir éventail
        portefeuille paquet colis cartable compas aimant filet hameçon matelas oreiller drap hamac trésor
        objet instrument robinet radiateur télescope microscope accordéon""",
    "clothing": """manteau pantalon chapeau pull costume gant foulard bonnet gilet imperméable tablier
        uniforme pyjama maillot soulier chausson blouson béret turban kimono caleçon jupon corsage bermuda""",
    "vehicle": """train avion bateau vélo camion autobus taxi tramway navire hélicoptère métro tracteur
        autocar voilier paquebot scooter chariot wagon traîneau planeur cargo bus""",
    "building": """château musée hôtel restaurant magasin hôpital théâtre cinéma marché palais immeuble
        appartement bâtiment jardin parc village quartier pont port stade temple couvent monastère hangar
        garage atelier grenier couloir salon collège lycée aéroport cimetière gymnase kiosque bistrot
        phare barrage entrepôt laboratoire zoo camping chalet manoir refuge pavillon tunnel balcon moulin
        bureau hameau hall""",
    "nature": """bois champ lac fleuve désert océan volcan ravin sentier chemin sommet rocher ruisseau
        étang glacier rivage littoral marais pré vallon canal golfe plateau torrent paysage verger
        vignoble territoire archipel""",
    "document": """livre journal roman texte article poème rapport contrat dictionnaire message billet
        magazine courrier testament récit conte manuscrit dossier formulaire document manuel traité
        catalogue calendrier carnet discours chapitre essai bulletin certificat passeport télégramme
        questionnaire communiqué décret programme scénario""",
    "art": """film tableau opéra ballet spectacle dessin portrait morceau disque chant refrain concerto
        feuilleton documentaire vitrail""",
    "abstract": """problème projet travail choix droit système principe sujet rôle résultat plan
        changement progrès danger secret conseil moyen avantage effort risque rêve mystère défaut souvenir
        doute pouvoir avis but talent succès échec besoin service mouvement développement traitement
        règlement fonctionnement raisonnement comportement argument accord désaccord phénomène objectif
        modèle concept intérêt mensonge métier défi budget impôt salaire loyer bénéfice crédit capital
        équilibre obstacle miracle compromis scrupule tourisme* commerce* chômage* enseignement
        financement aménagement logement recrutement investissement règne privilège journalisme*
        socialisme* capitalisme* libéralisme* féminisme* humanisme* racisme* réalisme* classicisme*
        romantisme* individualisme* nationalisme* terrorisme* urbanisme* vieillissement* réchauffement*
        isolement* remboursement licenciement classement jugement emprunt""",
    "feeling": """amour* bonheur* plaisir désir courage* espoir chagrin regret orgueil* enthousiasme*
        ennui désespoir* respect* mépris* dégoût* soulagement* étonnement* attachement* optimisme*
        pessimisme* égoïsme*""",
    "event": """mariage concours voyage match concert festival anniversaire combat procès accident
        enterrement départ retour congrès tournoi carnaval examen vote incident événement championnat
        référendum bal colloque défilé baptême banquet scrutin séjour entretien sondage débat lancement
        recensement""",
    "force": "vent orage incendie séisme cyclone ouragan brouillard* gel* froid* déluge",
    "group": """gouvernement parti syndicat groupe club orchestre tribunal parlement sénat comité
        ministère jury peuple public* couple équipage régiment cabinet collectif consortium""",
    "material": """bois* fer* or* argent* verre* plastique* cuir* coton* métal* papier* marbre* béton*
        carton* acier*"""
    "cuivre* bronze* granit* cristal* osier* caoutchouc*",
    "fabric": "coton* cuir* velours* lin* caoutchouc*",
}

FEMININE = {
    "person": "personne victime vedette sentinelle nonne recrue",
    "animal": """vache souris poule abeille mouche fourmi araignée grenouille chèvre brebis jument tortue
        baleine girafe panthère louve lionne chatte chienne biche vipère guêpe coccinelle hirondelle
        mouette chouette cigogne colombe pie oie dinde truite sardine méduse pieuvre limace sauterelle
        cigale libellule chenille taupe belette loutre antilope gazelle tigresse ânesse bête""",
    "food": """viande* pomme poire tomate carotte orange banane fraise cerise farine* crème* pêche prune
        framboise myrtille noix noisette amande olive courgette aubergine citrouille betterave lentille
        endive asperge mandarine pastèque baguette moutarde* vanille* saucisse côtelette cannelle*
        charcuterie* mayonnaise*""",
    "dish": """soupe salade tarte crêpe glace omelette sauce purée galette brioche tartine quiche pizza
        compote confiture pâtisserie""",
    "flavour": """fraise vanille* pomme framboise poire cerise orange* banane* tomate carotte crème*
        myrtille noix noisette amande cannelle* lavande*""",
    "settlement": "ville commune capitale région île bourgade",
    "drink": "eau* bière limonade* tisane boisson liqueur infusion grenadine*",
    "plant": """fleur rose tulipe herbe plante vigne violette marguerite lavande* orchidée fougère pivoine
        jonquille pâquerette jacinthe mousse* ortie ronce algue haie bruyère anémone primevère""",
    "object": """table chaise lampe clé porte fenêtre bouteille tasse assiette cuillère fourchette
        casserole boîte caisse valise montre horloge machine télévision radio guitare flûte harpe
        trompette poupée balle bague couronne épée hache corde échelle planche brosse serviette couverture
        armoire étagère commode bougie ampoule poubelle pelle scie aiguille épingle loupe caméra chaîne
        médaille statue gourde malle corbeille cruche carafe théière cafetière passoire tirelire cloche
        ancre balançoire tondeuse perceuse agrafeuse imprimante calculatrice cartouche arme pendule
        clarinette""",
    "clothing": """robe chemise veste jupe chaussure chaussette botte écharpe cravate ceinture casquette
        blouse sandale pantoufle cape combinaison chemisette tunique mitaine espadrille salopette""",
    "vehicle": """voiture moto bicyclette fusée camionnette barque ambulance péniche charrette remorque
        caravane locomotive trottinette limousine fourgonnette""",
    "building": """maison école église gare ville rue place boutique boulangerie librairie pharmacie
        bibliothèque usine banque ferme tour cathédrale mairie prison université chambre cuisine cave
        terrasse salle piscine auberge chapelle cabane caserne clinique épicerie boucherie villa
        forteresse abbaye mosquée synagogue galerie résidence serre grange écurie étable station avenue
        capitale cantine crèche patinoire discothèque bijouterie menuiserie blanchisserie brasserie
        scierie fonderie charcuterie parfumerie quincaillerie papeterie""",
    "nature": """mer forêt montagne plage rivière île vallée campagne colline côte plaine prairie grotte
        source cascade falaise dune route clairière jungle savane steppe péninsule baie crique lagune
        oasis banquise région province frontière""",
    "document": """lettre carte histoire page revue facture affiche annonce note phrase légende biographie
        thèse encyclopédie brochure étude enquête liste recette pétition chronique anthologie préface
        dissertation attestation ordonnance publication traduction autobiographie constitution convention
        circulaire rédaction""",
    "art": """chanson photo peinture sculpture musique symphonie mélodie œuvre image émission fresque
        mosaïque gravure photographie sonate aquarelle comédie tragédie caricature tapisserie exposition
        composition adaptation""",
    "abstract": """idée question solution raison vérité loi décision méthode situation difficulté liberté
        vie politique économie culture science langue tradition règle théorie proposition explication
        réponse erreur faute chance qualité quantité possibilité responsabilité promesse conséquence crise
        mesure activité expérience connaissance relation opinion stratégie technique technologie
        discipline justice* sécurité* santé* éducation* formation production construction évolution
        révolution création transformation communication information consommation* pollution* invention
        découverte recherche analyse hypothèse conclusion condition critique demande dépense dette
        richesse pauvreté* égalité* curiosité* intelligence* patience* sagesse* prudence* ambition mission
        profession habitude coutume réforme interdiction obligation contradiction définition fonction
        intention interprétation modification motivation observation orientation précaution protection
        réaction réduction répartition reproduction restriction séparation simplification spécialisation
        supposition suppression utilisation valorisation variation vocation autorisation augmentation
        diminution exploitation exportation importation imagination* industrialisation* mondialisation*
        modernisation* privatisation colonisation civilisation fidélité* honnêteté* générosité*
        simplicité* complexité* productivité* rentabilité* publicité priorité minorité majorité nécessité
        universalité* rivalité réalité spécialité""",
    "feeling": """joie peur colère tristesse* honte* jalousie* haine* confiance* fierté* inquiétude
        angoisse émotion passion douleur souffrance surprise admiration* amitié tendresse* mélancolie*
        nostalgie* déception gratitude* pitié* indignation* frustration satisfaction* exaspération*""",
    "event": """fête guerre réunion élection cérémonie course bataille rencontre conférence manifestation
        grève compétition discussion conversation visite soirée promenade excursion expédition négociation
        réception inauguration révolte foire kermesse finale représentation dispute querelle tournée
        croisière randonnée session séance audience consultation célébration arrestation évacuation
        intervention invasion libération""",
    "force": """tempête pluie neige* inondation foudre* grêle* avalanche sécheresse canicule vague tornade
        épidémie""",
    "group": """société entreprise équipe association compagnie commission armée police* famille commune
        municipalité assemblée communauté organisation administration académie coopérative fédération
        troupe foule nation république préfecture délégation chorale agence opposition coalition
        corporation multinationale""",
    "material": "laine* soie* pierre* brique* porcelaine* paille* argile* cire* dentelle* faïence*",
    "fabric": "laine* soie* dentelle* fourrure*",
}

PLURAL_IN_X = ("bijou", "caillou", "chou", "genou", "hibou", "joujou", "pou")
PLURAL_ALS = (
    "bal",
    "carnaval",
    "festival",
    "récital",
    "régal",
    "chacal",
    "banal",
    "fatal",
    "final",
    "natal",
    "naval",
)
PLURAL_AIL_TO_AUX = ("travail", "vitrail", "corail", "bail", "émail")
