"""The words of the grammar, the frequent ones first: data only.

A table is rows of `key: words`; indented lines go on with the row above. A noun with a star is used in the singular
only (`pain*`: some bread), a verb written `se.lever` is pronominal. Verbs and adjectives select on the kinds of nouns.
"""

from __future__ import annotations

import re


def rows(text: str) -> list[tuple[str, str]]:
    """(key, words) for each row of a table."""
    parted = (row.partition(":") for row in re.split(r"\n(?! )", text.strip()))
    return [(key.strip(), words.strip()) for key, _, words in parted]


# Nouns for people: the feminine follows the rule for adjectives (voisin, voisine; boulanger, boulangère; élève, élève),
# -teur becomes -trice, or -eur becomes -euse; or it is a word of its own.
PEOPLE_REGULAR = """
ami voisin président élève étudiant ministre avocat journaliste client cousin ouvrier habitant artiste patient policier
employé marchand député touriste boulanger infirmier musicien fermier paysan candidat adulte collègue peintre invité
citoyen commerçant cuisinier secrétaire dentiste gardien adolescent philosophe architecte savant pilote camarade
écrivain assistant dirigeant enseignant scientifique pianiste propriétaire étranger prisonnier conseiller pharmacien
comédien mécanicien électricien technicien historien magicien chirurgien lycéen collégien pâtissier jardinier épicier
banquier caissier couturier bijoutier romancier berger passager messager héritier cavalier écolier douanier guerrier
adjoint agent violoniste cycliste fleuriste guitariste notaire bibliothécaire locataire libraire vétérinaire interprète
guide adversaire bourgeois marquis retraité blessé délégué accusé associé fiancé marié magistrat soldat apprenti
orphelin villageois manifestant militant participant représentant commandant remplaçant gagnant survivant correspondant
concurrent géant mendiant débutant négociant fabricant détective économiste chimiste géographe photographe astronome
mathématicien physicien politicien opticien informaticien esthéticien académicien végétarien gendarme juge arbitre
athlète gymnaste alpiniste cinéaste dramaturge linguiste psychologue biologiste juriste garagiste antiquaire actionnaire
fonctionnaire commissaire partenaire stagiaire milliardaire aristocrate diplomate démocrate bénévole responsable
spécialiste capitaliste socialiste pacifiste optimiste perfectionniste humoriste caricaturiste styliste standardiste
urbaniste plombier menuisier charpentier cordonnier teinturier serrurier hôtelier costumier chapelier aventurier
châtelain bohémien sorcier baron patron espion champion vigneron montagnard campagnard exilé rescapé réfugié diplômé
licencié inconnu disparu élu
"""
PEOPLE_TRICE = """
directeur acteur lecteur spectateur instituteur conducteur inspecteur agriculteur traducteur inventeur rédacteur éditeur
dessinateur créateur animateur explorateur électeur réalisateur consommateur facteur sénateur organisateur moniteur
producteur observateur navigateur auditeur éducateur fondateur admirateur collaborateur narrateur tuteur amateur
médiateur orateur aviateur compositeur illustrateur administrateur coordinateur perturbateur décorateur restaurateur
formateur libérateur négociateur cultivateur expéditeur présentateur programmateur
"""
PEOPLE_EUSE = """
chanteur joueur vendeur voyageur danseur coiffeur serveur chercheur travailleur visiteur chasseur pêcheur nageur coureur
voleur promeneur acheteur entraîneur footballeur menteur skieur plongeur programmeur randonneur livreur collectionneur
entrepreneur campeur dompteur balayeur tricheur rêveur conteur jongleur maquilleur cascadeur basketteur handballeur
éleveur dépanneur carreleur
"""
PEOPLE_PAIRS = """
homme/femme enfant/enfant garçon/fille père/mère frère/sœur roi/reine oncle/tante prince/princesse neveu/nièce
copain/copine maître/maîtresse poète/poétesse héros/héroïne hôte/hôtesse duc/duchesse comte/comtesse compagnon/compagne
parrain/marraine empereur/impératrice ambassadeur/ambassadrice veuf/veuve jumeau/jumelle dieu/déesse
"""

MASCULINE_NOUNS = rows("""
person: médecin professeur pompier marin bûcheron chevalier capitaine général moine évêque ingénieur témoin
animal: chien chat cheval oiseau poisson lapin loup renard ours cochon mouton bœuf canard coq âne lion tigre éléphant
    singe serpent crocodile écureuil hérisson hibou papillon insecte moustique rat cerf sanglier aigle corbeau pigeon
    perroquet dauphin requin chameau zèbre escargot crapaud lézard hamster faucon cygne chevreuil taureau veau agneau
    poulain merle moineau castor blaireau homard crabe saumon phoque pingouin kangourou léopard buffle vautour héron
    caniche
food: pain* fromage poulet fruit légume riz* beurre* chocolat* sucre* sel* miel* jambon* œuf bonbon raisin* citron melon
    abricot haricot artichaut champignon concombre oignon poireau navet chou radis ananas bouillon rôti caramel* nougat*
    piment cornichon saucisson poivre* persil* basilic*
dish: gâteau dessert biscuit sandwich potage gratin yaourt ragoût croissant flan sorbet pâté sablé
flavour: chocolat* citron* fromage* miel* caramel* abricot oignon poireau champignon jambon* poivre*
settlement: village hameau quartier bourg pays
drink: vin café thé lait* jus cidre* sirop champagne* cognac* rhum* apéritif
plant: arbre chêne sapin pommier cerisier rosier blé* buisson hêtre platane érable olivier palmier peuplier saule
    tilleul bouleau noisetier noyer poirier prunier figuier citronnier oranger lilas coquelicot tournesol jasmin
    géranium lierre roseau maïs* trèfle cactus bambou frêne marronnier châtaignier laurier houx abricotier
object: sac couteau verre panier outil téléphone ordinateur marteau parapluie stylo crayon cahier lit fauteuil tapis
    miroir rideau coussin vase clou balai seau bijou collier bracelet jouet ballon appareil cadeau coffre tiroir meuble
    canapé four réfrigérateur piano violon tambour pinceau peigne savon briquet cendrier chandelier tabouret placard
    bocal pot tonneau flacon bol fusil pistolet sabre bouclier drapeau cadenas tuyau moteur écran clavier casque ruban
    rasoir éventail portefeuille paquet colis cartable compas aimant filet hameçon matelas oreiller drap hamac trésor
    objet instrument robinet radiateur télescope microscope accordéon
clothing: manteau pantalon chapeau pull costume gant foulard bonnet gilet imperméable tablier uniforme pyjama maillot
    soulier chausson blouson béret turban kimono caleçon jupon corsage bermuda
vehicle: train avion bateau vélo camion autobus taxi tramway navire hélicoptère métro tracteur autocar voilier paquebot
    scooter chariot wagon traîneau planeur cargo bus
building: château musée hôtel restaurant magasin hôpital théâtre cinéma marché palais immeuble appartement bâtiment
    jardin parc village quartier pont port stade temple couvent monastère hangar garage atelier grenier couloir salon
    collège lycée aéroport cimetière gymnase kiosque bistrot phare barrage entrepôt laboratoire zoo camping chalet
    manoir refuge pavillon tunnel balcon moulin bureau hameau hall
nature: bois champ lac fleuve désert océan volcan ravin sentier chemin sommet rocher ruisseau étang glacier rivage
    littoral marais pré vallon canal golfe plateau torrent paysage verger vignoble territoire archipel
document: livre journal roman texte article poème rapport contrat dictionnaire message billet magazine courrier
    testament récit conte manuscrit dossier formulaire document manuel traité catalogue calendrier carnet discours
    chapitre essai bulletin certificat passeport télégramme questionnaire communiqué décret programme scénario
art: film tableau opéra ballet spectacle dessin portrait morceau disque chant refrain concerto feuilleton documentaire
    vitrail
abstract: problème projet travail choix droit système principe sujet rôle résultat plan changement progrès danger secret
    conseil moyen avantage effort risque rêve mystère défaut souvenir doute pouvoir avis but talent succès échec besoin
    service mouvement développement traitement règlement fonctionnement raisonnement comportement argument accord
    désaccord phénomène objectif modèle concept intérêt mensonge métier défi budget impôt salaire loyer bénéfice crédit
    capital équilibre obstacle miracle compromis scrupule tourisme* commerce* chômage* enseignement financement
    aménagement logement recrutement investissement règne privilège journalisme* socialisme* capitalisme* libéralisme*
    féminisme* humanisme* racisme* réalisme* classicisme* romantisme* individualisme* nationalisme* terrorisme*
    urbanisme* vieillissement* réchauffement* isolement* remboursement licenciement classement jugement emprunt
feeling: amour* bonheur* plaisir désir courage* espoir chagrin regret orgueil* enthousiasme* ennui désespoir* respect*
    mépris* dégoût* soulagement* étonnement* attachement* optimisme* pessimisme* égoïsme*
event: mariage concours voyage match concert festival anniversaire combat procès accident enterrement départ retour
    congrès tournoi carnaval examen vote incident événement championnat référendum bal colloque défilé baptême banquet
    scrutin séjour entretien sondage débat lancement recensement
force: vent orage incendie séisme cyclone ouragan brouillard* gel* froid* déluge
group: gouvernement parti syndicat groupe club orchestre tribunal parlement sénat comité ministère jury peuple public*
    couple équipage régiment cabinet collectif consortium
material: bois* fer* or* argent* verre* plastique* cuir* coton* métal* papier* marbre* béton* carton* acier*cuivre*
    bronze* granit* cristal* osier* caoutchouc*
fabric: coton* cuir* velours* lin* caoutchouc*
""")

FEMININE_NOUNS = rows("""
person: personne victime vedette sentinelle nonne recrue
animal: vache souris poule abeille mouche fourmi araignée grenouille chèvre brebis jument tortue baleine girafe panthère
    louve lionne chatte chienne biche vipère guêpe coccinelle hirondelle mouette chouette cigogne colombe pie oie dinde
    truite sardine méduse pieuvre limace sauterelle cigale libellule chenille taupe belette loutre antilope gazelle
    tigresse ânesse bête
food: viande* pomme poire tomate carotte orange banane fraise cerise farine* crème* pêche prune framboise myrtille noix
    noisette amande olive courgette aubergine citrouille betterave lentille endive asperge mandarine pastèque baguette
    moutarde* vanille* saucisse côtelette cannelle* charcuterie* mayonnaise*
dish: soupe salade tarte crêpe glace omelette sauce purée galette brioche tartine quiche pizza compote confiture
    pâtisserie
flavour: fraise vanille* pomme framboise poire cerise orange* banane* tomate carotte crème* myrtille noix noisette
    amande cannelle* lavande*
settlement: ville commune capitale région île bourgade
drink: eau* bière limonade* tisane boisson liqueur infusion grenadine*
plant: fleur rose tulipe herbe plante vigne violette marguerite lavande* orchidée fougère pivoine jonquille pâquerette
    jacinthe mousse* ortie ronce algue haie bruyère anémone primevère
object: table chaise lampe clé porte fenêtre bouteille tasse assiette cuillère fourchette casserole boîte caisse valise
    montre horloge machine télévision radio guitare flûte harpe trompette poupée balle bague couronne épée hache corde
    échelle planche brosse serviette couverture armoire étagère commode bougie ampoule poubelle pelle scie aiguille
    épingle loupe caméra chaîne médaille statue gourde malle corbeille cruche carafe théière cafetière passoire tirelire
    cloche ancre balançoire tondeuse perceuse agrafeuse imprimante calculatrice cartouche arme pendule clarinette
clothing: robe chemise veste jupe chaussure chaussette botte écharpe cravate ceinture casquette blouse sandale pantoufle
    cape combinaison chemisette tunique mitaine espadrille salopette
vehicle: voiture moto bicyclette fusée camionnette barque ambulance péniche charrette remorque caravane locomotive
    trottinette limousine fourgonnette
building: maison école église gare ville rue place boutique boulangerie librairie pharmacie bibliothèque usine banque
    ferme tour cathédrale mairie prison université chambre cuisine cave terrasse salle piscine auberge chapelle cabane
    caserne clinique épicerie boucherie villa forteresse abbaye mosquée synagogue galerie résidence serre grange écurie
    étable station avenue capitale cantine crèche patinoire discothèque bijouterie menuiserie blanchisserie brasserie
    scierie fonderie charcuterie parfumerie quincaillerie papeterie
nature: mer forêt montagne plage rivière île vallée campagne colline côte plaine prairie grotte source cascade falaise
    dune route clairière jungle savane steppe péninsule baie crique lagune oasis banquise région province frontière
document: lettre carte histoire page revue facture affiche annonce note phrase légende biographie thèse encyclopédie
    brochure étude enquête liste recette pétition chronique anthologie préface dissertation attestation ordonnance
    publication traduction autobiographie constitution convention circulaire rédaction
art: chanson photo peinture sculpture musique symphonie mélodie œuvre image émission fresque mosaïque gravure
    photographie sonate aquarelle comédie tragédie caricature tapisserie exposition composition adaptation
abstract: idée question solution raison vérité loi décision méthode situation difficulté liberté vie politique économie
    culture science langue tradition règle théorie proposition explication réponse erreur faute chance qualité quantité
    possibilité responsabilité promesse conséquence crise mesure activité expérience connaissance relation opinion
    stratégie technique technologie discipline justice* sécurité* santé* éducation* formation production construction
    évolution révolution création transformation communication information consommation* pollution* invention découverte
    recherche analyse hypothèse conclusion condition critique demande dépense dette richesse pauvreté* égalité*
    curiosité* intelligence* patience* sagesse* prudence* ambition mission profession habitude coutume réforme
    interdiction obligation contradiction définition fonction intention interprétation modification motivation
    observation orientation précaution protection réaction réduction répartition reproduction restriction séparation
    simplification spécialisation supposition suppression utilisation valorisation variation vocation autorisation
    augmentation diminution exploitation exportation importation imagination* industrialisation* mondialisation*
    modernisation* privatisation colonisation civilisation fidélité* honnêteté* générosité* simplicité* complexité*
    productivité* rentabilité* publicité priorité minorité majorité nécessité universalité* rivalité réalité spécialité
feeling: joie peur colère tristesse* honte* jalousie* haine* confiance* fierté* inquiétude angoisse émotion passion
    douleur souffrance surprise admiration* amitié tendresse* mélancolie* nostalgie* déception gratitude* pitié*
    indignation* frustration satisfaction* exaspération*
event: fête guerre réunion élection cérémonie course bataille rencontre conférence manifestation grève compétition
    discussion conversation visite soirée promenade excursion expédition négociation réception inauguration révolte
    foire kermesse finale représentation dispute querelle tournée croisière randonnée session séance audience
    consultation célébration arrestation évacuation intervention invasion libération
force: tempête pluie neige* inondation foudre* grêle* avalanche sécheresse canicule vague tornade épidémie
group: société entreprise équipe association compagnie commission armée police* famille commune municipalité assemblée
    communauté organisation administration académie coopérative fédération troupe foule nation république préfecture
    délégation chorale agence opposition coalition corporation multinationale
material: laine* soie* pierre* brique* porcelaine* paille* argile* cire* dentelle* faïence*
fabric: laine* soie* dentelle* fourrure*
""")

# Adjectives by what they say of whom: before the noun; after it, or as attribute of the subject.
ADJECTIVES_BEFORE = rows("""
any: petit grand nouveau autre ancien vieux dernier premier
living: jeune petit vieux grand pauvre gros brave nouveau autre ancien vieux fameux
thing: petit grand beau vieux gros joli nouveau bon mauvais énorme superbe ancien minuscule vilain magnifique
work: nouveau grand vieux beau bon mauvais petit magnifique superbe premier dernier ancien
notion: grand nouveau bon mauvais long simple véritable premier dernier autre ancien énorme vrai faux double
""")
ADJECTIVES_AFTER = rows("""
colour: rouge noir blanc bleu vert jaune gris brun rose violet doré argenté clair sombre pâle beige mauve écarlate
    bleuâtre verdâtre jaunâtre grisâtre rougeâtre multicolore transparent bariolé orangé
matter: lourd léger solide fragile propre sale neuf usé cassé rond carré plat étroit épais mince pointu creux lisse
    rugueux mou dur brillant froid chaud humide mouillé vide plein ouvert fermé pratique utile précieux moderne coûteux
    rare élégant luxueux rustique ovale rectangulaire triangulaire circulaire métallique électrique portatif poussiéreux
    rouillé abîmé fendu imposant encombrant étanche inflammable résistant volumineux
character: heureux triste content fier intelligent gentil méchant timide courageux généreux honnête sincère fidèle
    jaloux curieux sérieux paresseux drôle bavard discret patient prudent poli sage fou calme inquiet malheureux fatigué
    célèbre riche puissant malade vivant blessé seul nerveux furieux têtu naïf vif actif agressif attentif craintif
    pensif passif impulsif créatif inventif maladroit adroit habile rusé cruel orgueilleux ambitieux envieux
    consciencieux méticuleux capricieux audacieux peureux soigneux coléreux superstitieux silencieux joyeux gracieux
    anxieux ingénieux studieux grincheux étourdi distrait insolent impatient indépendant tolérant arrogant élégant
    charmant souriant exigeant méfiant prévoyant obéissant entreprenant loyal jovial génial original sentimental matinal
    sympathique énergique dynamique pessimiste optimiste modeste aimable raisonnable sociable irritable vulnérable
    responsable infatigable serviable admirable muet inquiétant blond roux chauve maigre mince robuste
beast: sauvage féroce rapide doux affamé dangereux craintif agile lent docile malade vorace domestique errant venimeux
    carnivore herbivore nocturne apprivoisé bruyant énorme inoffensif blessé robuste trapu poilu
notion: important difficile facile simple complexe possible impossible nécessaire utile inutile évident faux clair
    obscur récent moderne historique politique économique social culturel scientifique national international général
    particulier public officiel principal essentiel fondamental grave sérieux inattendu surprenant étonnant intéressant
    ennuyeux remarquable exceptionnel terrible absurde logique secret réel actuel traditionnel naturel personnel
    professionnel individuel collectif positif négatif définitif décisif excessif progressif administratif juridique
    technique théorique pratique stratégique historique symbolique électronique numérique climatique énergétique
    écologique industriel commercial financier judiciaire militaire religieux philosophique psychologique artistique
    littéraire scolaire universitaire alimentaire élémentaire provisoire obligatoire contradictoire considérable durable
    acceptable inévitable inoubliable incroyable discutable irréversible invisible sensible crédible permanent urgent
    fréquent cohérent imprudent éminent global mondial régional local rural colonial médical légal illégal idéal moral
    normal radical brutal partiel potentiel éventuel ponctuel rationnel structurel exemplaire nécessaire ambigu douteux
    désastreux avantageux mystérieux minutieux
taste: délicieux sucré salé amer acide frais cru cuit épicé tiède chaud froid mûr fade croustillant onctueux gras
    parfumé glacé fumé grillé farci biologique végétal savoureux appétissant écœurant caramélisé surgelé
landscape: calme sauvage lointain profond ensoleillé enneigé boisé paisible escarpé brumeux verdoyant montagneux sec
    désertique tropical isolé pittoresque inaccessible rocheux aride fertile désolé venteux marécageux
place: moderne vaste célèbre abandonné central médiéval gothique municipal bruyant tranquille spacieux lumineux luxueux
    étroit désert historique commercial animé populaire propre somptueux monumental accueillant délabré voûté fortifié
    fleuri rénové souterrain
origin: français anglais américain allemand italien espagnol russe chinois japonais belge européen suisse africain
    canadien grec portugais polonais turc suédois norvégien danois brésilien asiatique indien irlandais écossais
    hollandais hongrois autrichien marocain algérien tunisien égyptien vietnamien coréen mexicain argentin australien
    breton normand parisien lyonnais marseillais alsacien corse provençal basque bordelais toulousain finlandais
    islandais roumain bulgare ukrainien libanais iranien sénégalais malgache péruvien chilien cubain
style: classique romantique baroque contemporain célèbre original comique tragique court long réaliste anonyme inachevé
    posthume satirique émouvant monotone captivant fantastique policier lyrique épique
power: puissant célèbre divisé prudent inquiet uni favorable hostile indépendant efficace riche pauvre déterminé actif
    silencieux satisfait ambitieux optimiste démocratique influent corrompu méfiant
machine: rapide lent neuf puissant moderne confortable bruyant vide plein lourd électrique blindé spacieux rouillé
    silencieux économique
happening: long court réussi inattendu important grave violent joyeux triste solennel tragique sanglant mémorable
    mouvementé international annuel spectaculaire bruyant animé difficile pacifique amical décisif
mood: profond sincère immense étrange terrible secret soudain durable sombre inattendu violent passager vif aveugle
    intense évident excessif inexplicable
weather: violent fort terrible brutal soudain glacial tropical dévastateur intense bref
plantlike: fleuri parfumé fané sauvage centenaire épineux exotique rare vénéneux sec grimpant touffu vivace robuste
""")

# For a kind of noun: the adjectives before it, after it and as attribute of it; what may complete it, preposition and
# kind. The nouns in between are what agreement must reach across.
KINDS = rows("""
person: living | character character origin | character | de building, de group, de person, de place, avec clothing
animal: living | beast beast colour | beast | de person, de building, de nature
group: any | power origin | power | de place, de person, de country
food: thing | taste | taste | de person, de place
dish: thing | taste | taste | à flavour, à flavour, de person
drink: thing | taste origin | taste | de place, de person
plant: thing | plantlike plantlike colour | plantlike | de building, de nature, près de building
object: thing | matter matter colour | matter colour | de person, en material, de building
clothing: thing | colour matter | colour matter | en fabric, de person
vehicle: thing | machine machine colour origin | machine machine colour | de person, de group, de place
building: thing | place place place origin | place | de place, près de nature, de nature, de person
nature: thing | landscape landscape origin | landscape | de country, près de place, autour de building
settlement: thing | place origin | | de country, près de nature
document: work | notion style origin | style | de person, sur abstract, sur event, de group
art: work | style style origin | style | de person, sur event
abstract: notion | notion | notion | de group, de person, de country, pour person
feeling: notion | mood | mood | de person
event: notion | happening | happening | de group, de place, contre abstract, avec person
force: notion | weather | weather | de place
""")

# Verbs, by kinds of subject | preposition (none for a direct object) | kinds of object (none if there is no object).
FRAMES = rows("""
person | | food dish: manger acheter préparer cuisiner partager goûter servir commander apporter vendre couper avaler
    éplucher savourer dévorer découper mélanger réchauffer cuire mâcher assaisonner râper refroidir saupoudrer garnir
    surgeler
person | | drink: boire verser servir commander déguster goûter apporter renverser siroter réclamer filtrer
person | | object: prendre acheter trouver chercher perdre porter vendre poser utiliser ranger réparer garder casser
    fabriquer cacher nettoyer choisir emporter jeter ramasser déplacer soulever voler briser emballer emprunter lancer
    ouvrir fermer tenir apporter laisser oublier accrocher suspendre essuyer frotter remplir vider peser décrocher
    déballer démonter remonter remplacer transporter traîner pousser tirer saisir attraper réclamer récupérer abîmer
    vernir polir astiquer dissimuler revendre racheter retrouver rejeter secouer retourner tordre égarer confisquer
    bricoler peindre repeindre
person | | clothing: porter mettre laver choisir acheter plier coudre enlever repasser déchirer essayer enfiler
    raccommoder tricoter boutonner recoudre ôter teindre retirer salir broder rapiécer
person | | vehicle: conduire prendre acheter réparer louer laver vendre garer piloter attendre manquer arrêter
person | | document: lire écrire publier recevoir envoyer signer traduire relire étudier consulter corriger rédiger
    imprimer résumer citer feuilleter recopier annoter archiver déchirer réécrire compléter parcourir commenter
    illustrer conserver classer photocopier brûler diffuser dicter distribuer déchiffrer falsifier
person | | art: admirer regarder voir écouter découvrir aimer interpréter composer créer apprécier critiquer contempler
    enregistrer exposer acheter produire restaurer commenter achever réinterpréter
person | | person: voir rencontrer aider connaître aimer attendre inviter appeler suivre écouter saluer remercier
    regarder accompagner embrasser protéger soigner retrouver interroger féliciter accueillir épouser détester respecter
    critiquer surveiller consoler gronder tromper quitter présenter chercher reconnaître convaincre défendre punir
    nommer élire engager remplacer encourager rassurer surprendre prévenir avertir questionner insulter menacer trahir
    dénoncer accuser arrêter condamner libérer recevoir reconduire raccompagner imiter admirer adorer mépriser craindre
    soupçonner persuader désigner calmer applaudir acclamer ignorer abandonner secourir sauver rejoindre réveiller
    bousculer héberger licencier recruter rémunérer ridiculiser humilier vexer venger taquiner consulter
person | | animal: nourrir caresser élever soigner chasser attraper dresser promener adopter observer effrayer
    apprivoiser attacher capturer recueillir tondre photographier abattre dompter
person | | plant: planter arroser cultiver cueillir couper tailler récolter arracher soigner semer déraciner élaguer
    replanter transplanter
person group | | building: construire visiter quitter acheter vendre louer rénover décorer fermer ouvrir bâtir restaurer
    agrandir détruire démolir reconstruire aménager meubler nettoyer financer moderniser inaugurer occuper évacuer
    fortifier cambrioler
person | | nature: traverser explorer peindre photographier contempler parcourir découvrir longer protéger dessiner
    quitter admirer survoler visiter redécouvrir atteindre gravir franchir cartographier défricher
person group | | abstract: expliquer défendre présenter proposer accepter refuser comprendre développer étudier imaginer
    chercher choisir analyser discuter trouver résoudre critiquer examiner améliorer changer définir soutenir approuver
    abandonner rejeter connaître oublier évoquer aborder décrire mentionner réexaminer contester envisager évaluer
    justifier négliger simplifier préciser modifier poursuivre condamner craindre reconnaître admettre promettre exiger
    garantir interdire démontrer vérifier supprimer adopter concevoir financer ignorer nier affirmer revendiquer
    appliquer préconiser clarifier dénoncer désapprouver réorganiser planifier formuler reformuler
person group | | event: organiser préparer attendre annoncer annuler célébrer éviter raconter commencer terminer
    interrompre fêter provoquer reporter suivre gagner perdre manquer quitter filmer financer retarder prolonger
    boycotter perturber abréger programmer
person | | feeling: éprouver ressentir cacher connaître exprimer avouer inspirer montrer partager dissimuler feindre
    surmonter
group | | person: engager défendre nommer recruter soutenir licencier recevoir inviter protéger convoquer récompenser
    élire former surveiller rémunérer consulter indemniser
animal | | animal: chasser suivre poursuivre attraper effrayer mordre dévorer guetter fuir attaquer flairer
animal | | food: manger dévorer voler avaler renifler chercher grignoter engloutir
animal | | person: suivre regarder réveiller mordre attendre effrayer protéger lécher griffer piquer amuser
abstract event document art | | person: intéresser inquiéter étonner surprendre amuser passionner rassurer concerner
    toucher choquer ennuyer déranger encourager décevoir préoccuper fasciner agacer irriter séduire bouleverser
    émerveiller scandaliser désespérer stimuler enchanter intriguer
feeling | | person: envahir tourmenter saisir aveugler paralyser animer ronger submerger accabler
force | | building: détruire frapper endommager menacer ravager inonder dévaster épargner abîmer ébranler
force | | nature plant: ravager frapper menacer détruire dévaster abîmer recouvrir dessécher
abstract event | | abstract: exiger modifier favoriser améliorer provoquer entraîner changer révéler transformer menacer
    faciliter justifier accélérer ralentir compliquer remplacer expliquer bouleverser précéder nécessiter illustrer
    refléter engendrer aggraver
document | | abstract event: décrire présenter évoquer expliquer raconter contenir citer résumer critiquer aborder
    analyser annoncer interdire concerner mentionner réglementer
vehicle | | person object: transporter emmener déposer attendre heurter ramener frôler
building | | person: accueillir héberger attirer abriter réunir
person | |: travailler dormir chanter rire parler arriver partir danser marcher sourire pleurer tomber crier voyager
    rester courir jouer nager hésiter mentir souffrir mourir grandir vieillir maigrir rougir trembler revenir rentrer
    sortir entrer réfléchir téléphoner dîner déjeuner bavarder ronfler tousser bâiller transpirer grimper échouer
    réussir gagner perdre recommencer obéir désobéir protester démissionner déménager se.absenter plaisanter murmurer
    hurler bégayer sangloter soupirer patienter progresser guérir pâlir grossir mûrir rajeunir renoncer accourir
    disparaître intervenir repartir
person | |: se.lever se.reposer se.promener se.taire se.amuser se.inquiéter se.endormir se.habiller se.cacher se.arrêter
    se.réveiller se.asseoir se.tromper se.dépêcher se.coucher se.fâcher se.ennuyer se.laver se.enfuir se.marier
    se.évanouir se.énerver se.excuser se.plaindre se.déguiser se.baigner se.entraîner se.effondrer se.installer
    se.impatienter se.éloigner se.détendre
animal | |: dormir courir crier sauter manger chasser approcher disparaître grogner ramper revenir arriver se.cacher
    se.enfuir se.approcher se.échapper bondir hiberner mourir se.reproduire
plant | |: pousser fleurir grandir mourir sécher faner verdir jaunir dépérir repousser
object vehicle | |: tomber disparaître briller fonctionner rouiller se.briser vibrer
vehicle | |: arriver partir rouler démarrer freiner ralentir se.arrêter repartir avancer accélérer reculer
building | |: fermer ouvrir brûler se.effondrer disparaître rouvrir
nature | |: changer disparaître fleurir verdir
event | |: commencer finir continuer durer échouer approcher débuter recommencer se.achever se.terminer
abstract | |: changer évoluer exister disparaître progresser échouer empirer réussir se.aggraver se.développer
    se.améliorer apparaître réapparaître persister varier
feeling | |: grandir disparaître revenir durer augmenter diminuer se.dissiper
force | |: cesser approcher éclater arriver continuer commencer se.calmer redoubler se.intensifier
document art | |: paraître plaire circuler exister disparaître se.vendre
group | |: voter décider progresser se.réunir protester intervenir résister délibérer se.taire réagir céder
food dish | |: refroidir cuire moisir pourrir
person | de | person abstract event: parler rêver se.souvenir se.plaindre se.moquer se.méfier se.occuper se.éloigner
    se.désintéresser se.rapprocher
person | à | person: parler répondre téléphoner ressembler obéir sourire plaire mentir pardonner nuire
person | à | abstract event: penser participer renoncer réfléchir assister se.intéresser se.opposer contribuer
    se.habituer échapper tenir croire résister se.préparer collaborer
group | à | abstract event: participer renoncer se.opposer contribuer réfléchir assister se.intéresser
person group | contre | abstract person: lutter protester voter se.battre plaider se.révolter
person | avec | person: parler jouer travailler discuter vivre danser voyager dîner bavarder rompre correspondre
person animal | avec | animal object: jouer partir dormir arriver
person | dans | building: entrer travailler vivre habiter rester dormir se.installer pénétrer attendre loger
person | à | place: habiter vivre travailler arriver aller rester revenir étudier retourner se.rendre naître mourir
person animal | dans | nature: vivre marcher se.promener courir se.perdre se.aventurer disparaître errer
person | de | building: sortir partir revenir arriver se.approcher se.enfuir
person | sur | object abstract: compter insister se.appuyer tomber
vehicle | devant | building: passer se.arrêter attendre stationner ralentir
vehicle | de | place: arriver partir revenir venir
abstract | de | abstract group: dépendre résulter relever découler provenir
event | dans | building: commencer se.dérouler se.terminer se.tenir
object clothing | sur | object: tomber traîner sécher reposer
object document art | à | person group: appartenir plaire manquer convenir
""")
# Subject gives, shows or says a thing of these kinds to a person.
GIVING = rows("""
object clothing: donner offrir prêter montrer rendre vendre apporter envoyer confier distribuer réclamer voler
document art: envoyer montrer lire dédier remettre présenter prêter apporter recommander
dish food drink: servir offrir apporter donner préparer refuser
abstract event: expliquer proposer présenter raconter annoncer imposer décrire enseigner rappeler promettre
""")
# Verbs before an infinitive, by the word that introduces it.
BEFORE_INFINITIVE = rows("""
: vouloir pouvoir devoir savoir aimer préférer espérer désirer détester souhaiter oser adorer compter
de: essayer décider refuser oublier accepter cesser promettre tenter choisir éviter rêver finir proposer craindre
    regretter envisager jurer se.dépêcher menacer
à: commencer apprendre réussir continuer hésiter chercher parvenir renoncer se.préparer se.mettre se.habituer
""")
SAYING = """
dire penser croire savoir expliquer affirmer annoncer espérer comprendre raconter répéter supposer remarquer ajouter
constater estimer prétendre promettre oublier reconnaître imaginer répondre déclarer confirmer préciser soutenir sentir
entendre rappeler avouer jurer observer conclure démontrer écrire découvrir noter signaler rétorquer
"""
SEEMING = "devenir rester sembler paraître demeurer"
WITH_ETRE = """
aller venir revenir devenir parvenir intervenir survenir provenir partir repartir sortir entrer rentrer arriver rester
tomber retomber naître mourir retourner accourir passer apparaître réapparaître demeurer
"""

# What no rule gives.
IRREGULAR_FEMININES = """
beau/belle nouveau/nouvelle vieux/vieille fou/folle mou/molle doux/douce roux/rousse faux/fausse jaloux/jalouse
favori/favorite frais/fraîche gentil/gentille nul/nulle ambigu/ambiguë aigu/aiguë blanc/blanche franc/franche sec/sèche
public/publique grec/grecque turc/turque long/longue bref/brève gros/grosse gras/grasse bas/basse épais/épaisse
complet/complète concret/concrète discret/discrète inquiet/inquiète secret/secrète paysan/paysanne vif/vive
dévastateur/dévastatrice conservateur/conservatrice sot/sotte bénin/bénigne malin/maligne
"""

PLURAL_IN_X = "bijou caillou chou genou hibou joujou pou"
PLURAL_ALS = "bal carnaval festival récital régal chacal banal fatal final natal naval"
PLURAL_AIL_TO_AUX = "travail vitrail corail bail émail"
ASPIRATED = """
hache haie hain haï hall hamac hameau hamster hangar hardi haricot harpe hasard hauss haut hérisson héron héros hêtre
heurt hibou hollan homard hongr honte honteu houx huit hurl hutte handball harceler hambourg
"""
DOUBLING = "appeler rappeler jeter rejeter projeter épeler renouveler feuilleter chanceler étinceler ficeler ruisseler"
# Suffix of the infinitive : present : stem of the future : passé simple, je : participle [: subjunctive stems]
IRREGULAR_VERBS = """
être : suis es est sommes êtes sont : ser : fus : été
avoir : ai as a avons avez ont : aur : eus : eu
aller : vais vas va allons allez vont : ir : allai : allé : aill all
enir : iens iens ient enons enez iennent : iendr : ins : enu
prendre : prends prends prend prenons prenez prennent : prendr : pris : pris
mettre : mets mets met mettons mettez mettent : mettr : mis : mis
battre : bats bats bat battons battez battent : battr : battis : battu
uire : uis uis uit uisons uisez uisent : uir : uisis : uit
nuire : nuis nuis nuit nuisons nuisez nuisent : nuir : nuisis : nui
indre : ins ins int ignons ignez ignent : indr : ignis : int
aître : ais ais aît aissons aissez aissent : aîtr : us : u
connaître : connais connais connaît connaissons connaissez connaissent : connaîtr : connus : connu
naître : nais nais naît naissons naissez naissent : naîtr : naquis : né
dire : dis dis dit disons dites disent : dir : dis : dit
interdire : interdis interdis interdit interdisons interdisez interdisent : interdir : interdis : interdit
lire : lis lis lit lisons lisez lisent : lir : lus : lu
crire : cris cris crit crivons crivez crivent : crir : crivis : crit
rire : ris ris rit rions riez rient : rir : ris : ri
suivre : suis suis suit suivons suivez suivent : suivr : suivis : suivi
vivre : vis vis vit vivons vivez vivent : vivr : vécus : vécu
boire : bois bois boit buvons buvez boivent : boir : bus : bu
croire : crois crois croit croyons croyez croient : croir : crus : cru
faire : fais fais fait faisons faites font : fer : fis : fait : fass fass
plaire : plais plais plaît plaisons plaisez plaisent : plair : plus : plu
taire : tais tais tait taisons taisez taisent : tair : tus : tu
rompre : romps romps rompt rompons rompez rompent : rompr : rompis : rompu
vaincre : vaincs vaincs vainc vainquons vainquez vainquent : vaincr : vainquis : vaincu
clure : clus clus clut cluons cluez cluent : clur : clus : clu
soudre : sous sous sout solvons solvez solvent : soudr : solus : solu
coudre : couds couds coud cousons cousez cousent : coudr : cousis : cousu
pouvoir : peux peux peut pouvons pouvez peuvent : pourr : pus : pu : puiss puiss
vouloir : veux veux veut voulons voulez veulent : voudr : voulus : voulu : veuill voul
devoir : dois dois doit devons devez doivent : devr : dus : dû
savoir : sais sais sait savons savez savent : saur : sus : su : sach sach
voir : vois vois voit voyons voyez voient : verr : vis : vu
cevoir : çois çois çoit cevons cevez çoivent : cevr : çus : çu
falloir : faux faux faut fallons fallez fallent : faudr : fallus : fallu : faill fall
valoir : vaux vaux vaut valons valez valent : vaudr : valus : valu : vaill val
asseoir : assieds assieds assied asseyons asseyez asseyent : assiér : assis : assis
partir : pars pars part partons partez partent : partir : partis : parti
sortir : sors sors sort sortons sortez sortent : sortir : sortis : sorti
mentir : mens mens ment mentons mentez mentent : mentir : mentis : menti
sentir : sens sens sent sentons sentez sentent : sentir : sentis : senti
dormir : dors dors dort dormons dormez dorment : dormir : dormis : dormi
servir : sers sers sert servons servez servent : servir : servis : servi
ouvrir : ouvre ouvres ouvre ouvrons ouvrez ouvrent : ouvrir : ouvris : ouvert
ffrir : ffre ffres ffre ffrons ffrez ffrent : ffrir : ffris : ffert
courir : cours cours court courons courez courent : courr : courus : couru
mourir : meurs meurs meurt mourons mourez meurent : mourr : mourus : mort
cueillir : cueille cueilles cueille cueillons cueillez cueillent : cueiller : cueillis : cueilli
fuir : fuis fuis fuit fuyons fuyez fuient : fuir : fuis : fui
quérir : quiers quiers quiert quérons quérez quièrent : querr : quis : quis
"""

FIRST_NAMES_MASCULINE = """
Pierre Jean Paul Louis Michel Jacques Philippe Thomas Nicolas Antoine Julien François Henri Alain Marc Luc Hugo Lucas
Léo Gabriel Arthur Raphaël Adam Jules Victor Martin Simon Étienne Vincent Olivier Laurent Christophe Sébastien Guillaume
Mathieu Alexandre Maxime Romain Benoît Fabien Xavier Yves Claude André Marcel René Georges Gérard Émile Gustave Albert
Édouard Frédéric Stéphane Thierry Denis Bruno Cédric Damien Éric Gilles Jérôme Ludovic Mohamed Karim Youssef Amadou
"""
FIRST_NAMES_FEMININE = """
Marie Jeanne Anne Claire Sophie Julie Camille Emma Louise Alice Chloé Léa Manon Inès Jade Sarah Lucie Charlotte Juliette
Élise Hélène Isabelle Catherine Nathalie Sylvie Valérie Céline Aurélie Émilie Pauline Mathilde Marguerite Simone Colette
Suzanne Yvonne Odette Madeleine Thérèse Cécile Agnès Béatrice Brigitte Caroline Delphine Estelle Fanny Florence
Gabrielle Geneviève Irène Jacqueline Karine Laure Lise Margot Monique Noémie Océane Patricia Rose Solène Virginie Fatima
Aïcha Yasmine Zoé
"""
FAMILY_NAMES = """
Martin Bernard Dubois Durand Moreau Laurent Lefebvre Michel Garcia Leroy Roux Petit Fournier Girard Bonnet Dupont
Lambert Fontaine Rousseau Vincent Muller Mercier Blanc Guérin Boyer Garnier Chevalier François Legrand Gauthier Perrin
Robin Clément Morin Nicolas Henry Roussel Mathieu Gautier Masson Marchand Duval Denis Dumont Marie Lemaire Noël Meyer
Dufour Meunier Brun Blanchard Giraud Joly Rivière Lucas Brunet Gaillard Barbier Arnaud Martinez Gérard Roche Renard
Schmitt Roy Leroux Colin Vidal Caron Picard Roger Fabre Aubert Lemoine Renaud Dumas Lacroix Olivier Philippe Bourgeois
Pierre Benoît Rey Leclerc Payet Rolland Leclercq Guillaume Lecomte Lopez Jean Dupuy Guillot Hubert Berger Carpentier
Sanchez Dupuis Moulin Louis Deschamps Huet Vasseur Perez Boucher Fleury Royer Klein Jacquet Adam Paris Poirier Marty
Aubry Guyot Carré Charles Renault Charpentier Ménard Maillard Baron Bertin Bailly Hervé Schneider Fernandez Collet
"""
TOWNS = """
Paris Lyon Marseille Toulouse Bordeaux Lille Nantes Strasbourg Nice Rennes Grenoble Montpellier Dijon Tours Orléans
Rouen Reims Londres Bruxelles Genève Rome Berlin Madrid Montréal Moscou Vienne Lisbonne Amsterdam Athènes Varsovie
Prague Budapest Dublin Tokyo Pékin Dakar Tunis Alger Beyrouth Istanbul Milan Venise Naples Florence Turin Barcelone
Séville Munich Hambourg Cologne Zurich Lausanne Liège Anvers Gand Québec Chicago Boston Avignon Nîmes Arles Cannes
Toulon Bayonne Pau Limoges Poitiers Angers Brest Quimper Lorient Vannes Caen Amiens Calais Metz Nancy Colmar Mulhouse
Besançon Annecy Chambéry Valence Perpignan Carcassonne Albi Rodez Cahors Périgueux Angoulême Niort Bourges Chartres
Versailles Troyes Auxerre Nevers Vichy Aurillac Ajaccio Bastia Évreux Alençon Laval Épinal Belfort Oslo Helsinki
"""
COUNTRIES_FEMININE = """
France Allemagne Italie Espagne Belgique Suisse Angleterre Russie Chine Pologne Grèce Autriche Suède Norvège Finlande
Irlande Écosse Hongrie Roumanie Bulgarie Turquie Algérie Tunisie Égypte Inde Corée Thaïlande Australie Argentine
Colombie Bolivie Tanzanie Éthiopie Bretagne Normandie Provence Bourgogne Alsace Lorraine Corse Savoie Auvergne Hollande
"""
COUNTRIES_MASCULINE = """
Canada Japon Brésil Portugal Mexique Maroc Danemark Sénégal Vietnam Chili Pérou Liban Cameroun Mali Kenya Luxembourg
Congo Népal Cambodge Togo Bénin Gabon Paraguay Venezuela Pakistan
"""
MONTHS = "janvier février mars avril mai juin juillet août septembre octobre novembre décembre"
DAYS = "lundi mardi mercredi jeudi vendredi samedi dimanche"
NUMBER_WORDS = "deux trois quatre cinq dix six sept huit neuf douze vingt quinze trente cent quarante cinquante mille"
MANNER = """
lent rapide facile simple sérieux difficile calme prudent silencieux doux franc poli patient attentif brutal courageux
joyeux discret violent soigneux nerveux triste gracieux secret constant élégant intelligent énergique fier maladroit
habile sincère honnête tendre cruel généreux timide progressif immédiat soudain régulier définitif complet entier
parfait étrange clair vif public officiel paisible tranquille froid chaleureux méthodique ingénieux obstiné
"""

# What a sentence is about: each topic makes its words more likely, whatever their kind.
TOPICS = rows("""
cooking: cuisinier boulanger pâtissier épicier serveur client manger préparer cuisiner goûter servir boire pain gâteau
    fromage soupe tarte vin restaurant cuisine boulangerie marché assiette casserole couteau recette délicieux sucré
    repas
school: élève étudiant instituteur professeur enseignant lycéen écolier lire étudier expliquer apprendre écrire corriger
    livre cahier stylo dictionnaire école lycée université bibliothèque examen science question intelligent studieux
politics: ministre président député sénateur candidat citoyen électeur gouvernement parti parlement assemblée commission
    loi réforme décision élection vote proposer voter défendre adopter critiquer politique social national économique
farming: fermier paysan agriculteur jardinier berger planter arroser cultiver récolter nourrir vache mouton cheval poule
    arbre fleur pommier blé champ ferme village campagne tracteur fertile sauvage
arts: artiste peintre musicien chanteur acteur danseur poète écrivain peindre composer interpréter admirer chanter
    tableau film chanson symphonie poème roman musée théâtre opéra concert exposition festival célèbre romantique
justice: policier juge avocat accusé voleur témoin détective inspecteur prisonnier arrêter interroger accuser condamner
    voler procès prison tribunal enquête dossier vérité mensonge arme police coupable secret
travel: voyageur touriste pilote conducteur passager voyager visiter arriver partir traverser conduire prendre train
    avion bateau voiture valise hôtel gare aéroport plage mer île montagne voyage croisière lointain
health: médecin infirmier patient chirurgien pharmacien blessé dentiste soigner guérir souffrir hôpital clinique
    pharmacie ambulance santé traitement maladie épidémie ordonnance douleur malade grave
economy: ouvrier employé directeur patron banquier commerçant vendeur client acheter vendre travailler entreprise
    société banque usine magasin budget salaire dette crédit contrat économie production commercial financier industriel
family: père mère frère sœur enfant garçon fille oncle tante cousin ami voisin aimer inviter embrasser jouer famille
    maison jardin jouet poupée cadeau fête mariage anniversaire amour joie bonheur tendresse heureux content
war: soldat guerrier commandant chevalier roi prince reine empereur combattre menacer attaquer protéger armée guerre
    bataille château forteresse épée bouclier couronne royaume victoire courageux puissant cruel
sport: joueur entraîneur footballeur nageur coureur cycliste champion athlète arbitre gagner perdre courir nager équipe
    club match course tournoi championnat finale stade piscine gymnase ballon vélo maillot rapide
""")
