"""Which verbs go with which subjects and objects, the frequent verbs first; irregular conjugations: data only.

A frame is: kinds of subject | preposition (empty for a direct object) | kinds of object (empty for none) | verbs.
A verb written `se.lever` is pronominal.
"""

FRAMES = (
    # direct objects
    ("person", "", "food dish", """manger acheter préparer cuisiner partager goûter servir commander
        apporter vendre couper avaler éplucher savourer dévorer découper mélanger réchauffer cuire mâcher
        assaisonner râper refroidir saupoudrer garnir surgeler"""),
    ("person", "", "drink", """boire verser servir commander déguster goûter apporter renverser siroter
        réclamer filtrer"""),
    ("person", "", "object", """prendre acheter trouver chercher perdre porter vendre poser utiliser
        ranger réparer garder casser fabriquer cacher nettoyer choisir emporter jeter ramasser déplacer
        soulever voler briser emballer emprunter lancer ouvrir fermer tenir apporter laisser oublier
        accrocher suspendre essuyer frotter remplir vider peser décrocher déballer démonter remonter
        remplacer transporter traîner pousser tirer saisir attraper réclamer récupérer abîmer vernir polir
        astiquer dissimuler revendre racheter retrouver rejeter secouer retourner tordre égarer confisquer
        bricoler peindre repeindre"""),
    ("person", "", "clothing", """porter mettre laver choisir acheter plier coudre enlever repasser
        déchirer essayer enfiler raccommoder tricoter boutonner recoudre ôter teindre retirer salir broder
        rapiécer"""),
    ("person", "", "vehicle", """conduire prendre acheter réparer louer laver vendre garer piloter
        attendre manquer arrêter"""),
    ("person", "", "document", """lire écrire publier recevoir envoyer signer traduire relire étudier
        consulter corriger rédiger imprimer résumer citer feuilleter recopier annoter archiver déchirer
        réécrire compléter parcourir commenter illustrer conserver classer photocopier brûler diffuser
        dicter distribuer déchiffrer falsifier"""),
    ("person", "", "art", """admirer regarder voir écouter découvrir aimer interpréter composer créer
        apprécier critiquer contempler enregistrer exposer acheter produire restaurer commenter achever
        réinterpréter"""),
    ("person", "", "person", """voir rencontrer aider connaître aimer attendre inviter appeler suivre
        écouter saluer remercier regarder accompagner embrasser protéger soigner retrouver interroger
        féliciter accueillir épouser détester respecter critiquer surveiller consoler gronder tromper
        quitter présenter chercher reconnaître convaincre défendre punir nommer élire engager remplacer
        encourager rassurer surprendre prévenir avertir questionner insulter menacer trahir dénoncer
        accuser arrêter condamner libérer recevoir reconduire raccompagner imiter admirer adorer mépriser
        craindre soupçonner persuader désigner calmer applaudir acclamer ignorer abandonner secourir
        sauver rejoindre réveiller bousculer héberger licencier recruter rémunérer ridiculiser humilier
        vexer venger taquiner consulter"""),
    ("person", "", "animal", """nourrir caresser élever soigner chasser attraper dresser promener adopter
        observer effrayer apprivoiser attacher capturer recueillir tondre photographier abattre dompter"""),
    ("person", "", "plant", """planter arroser cultiver cueillir couper tailler récolter arracher soigner
        semer déraciner élaguer replanter transplanter"""),
    ("person group", "", "building", """construire visiter quitter acheter vendre louer rénover décorer
        fermer ouvrir bâtir restaurer agrandir détruire démolir reconstruire aménager meubler nettoyer
        financer moderniser inaugurer occuper évacuer fortifier cambrioler"""),
    ("person", "", "nature", """traverser explorer peindre photographier contempler parcourir découvrir
        longer protéger dessiner quitter admirer survoler visiter redécouvrir atteindre gravir franchir
        cartographier défricher"""),
    ("person group", "", "abstract", """expliquer défendre présenter proposer accepter refuser comprendre
        développer étudier imaginer chercher choisir analyser discuter trouver résoudre critiquer examiner
        améliorer changer définir soutenir approuver abandonner rejeter connaître oublier évoquer aborder
        décrire mentionner réexaminer contester envisager évaluer justifier négliger simplifier préciser
        modifier poursuivre condamner craindre reconnaître admettre promettre exiger garantir interdire
        démontrer vérifier supprimer adopter concevoir financer ignorer nier affirmer revendiquer
        appliquer préconiser clarifier dénoncer désapprouver réorganiser planifier formuler reformuler"""),
    ("person group", "", "event", """organiser préparer attendre annoncer annuler célébrer éviter raconter
        commencer terminer interrompre fêter provoquer reporter suivre gagner perdre manquer quitter
        filmer financer retarder prolonger boycotter perturber abréger programmer"""),
    ("person", "", "feeling", """éprouver ressentir cacher connaître exprimer avouer inspirer montrer
        partager dissimuler feindre surmonter"""),
    ("group", "", "person", """engager défendre nommer recruter soutenir licencier recevoir inviter
        protéger convoquer récompenser élire former surveiller rémunérer consulter indemniser"""),
    ("animal", "", "animal", """chasser suivre poursuivre attraper effrayer mordre dévorer guetter fuir
        attaquer flairer"""),
    ("animal", "", "food", "manger dévorer voler avaler renifler chercher grignoter engloutir"),
    ("animal", "", "person", """suivre regarder réveiller mordre attendre effrayer protéger lécher griffer
        piquer amuser"""),
    ("abstract event document art", "", "person", """intéresser inquiéter étonner surprendre amuser
        passionner rassurer concerner toucher choquer ennuyer déranger encourager décevoir préoccuper
        fasciner agacer irriter séduire bouleverser émerveiller scandaliser désespérer stimuler enchanter
        intriguer"""),
    ("feeling", "", "person", """envahir tourmenter saisir aveugler paralyser animer ronger submerger
        accabler"""),
    ("force", "", "building", """détruire frapper endommager menacer ravager inonder dévaster épargner
        abîmer ébranler"""),
    ("force", "", "nature plant", "ravager frapper menacer détruire dévaster abîmer recouvrir dessécher"),
    ("abstract event", "", "abstract", """exiger modifier favoriser améliorer provoquer entraîner changer
        révéler transformer menacer faciliter justifier accélérer ralentir compliquer remplacer expliquer
        bouleverser précéder nécessiter illustrer refléter engendrer aggraver"""),
    ("document", "", "abstract event", """décrire présenter évoquer expliquer raconter contenir citer
        résumer critiquer aborder analyser annoncer interdire concerner mentionner réglementer"""),
    ("vehicle", "", "person object", "transporter emmener déposer attendre heurter ramener frôler"),
    ("building", "", "person", "accueillir héberger attirer abriter réunir"),
    # no object
    ("person", "", "", """travailler dormir chanter rire parler arriver partir danser marcher sourire
        pleurer tomber crier voyager rester courir jouer nager hésiter mentir souffrir mourir grandir
        vieillir maigrir rougir trembler revenir rentrer sortir entrer réfléchir téléphoner dîner déjeuner
        bavarder ronfler tousser bâiller transpirer grimper échouer réussir gagner perdre recommencer
        obéir désobéir protester démissionner déménager se.absenter plaisanter murmurer hurler bégayer
        sangloter soupirer patienter progresser guérir pâlir grossir mûrir rajeunir renoncer accourir
        disparaître intervenir repartir"""),
    ("person", "", "", """se.lever se.reposer se.promener se.taire se.amuser se.inquiéter se.endormir
        se.habiller se.cacher se.arrêter se.réveiller se.asseoir se.tromper se.dépêcher se.coucher
        se.fâcher se.ennuyer se.laver se.enfuir se.marier se.évanouir se.énerver se.excuser se.plaindre
        se.déguiser se.baigner se.entraîner se.effondrer se.installer se.impatienter se.éloigner
        se.détendre"""),
    ("animal", "", "", """dormir courir crier sauter manger chasser approcher disparaître grogner ramper
        revenir arriver se.cacher se.enfuir se.approcher se.échapper bondir hiberner mourir se.reproduire"""),
    ("plant", "", "", "pousser fleurir grandir mourir sécher faner verdir jaunir dépérir repousser"),
    ("object vehicle", "", "", "tomber disparaître briller fonctionner rouiller se.briser vibrer"),
    ("vehicle", "", "", """arriver partir rouler démarrer freiner ralentir se.arrêter repartir avancer
        accélérer reculer"""),
    ("building", "", "", "fermer ouvrir brûler se.effondrer disparaître rouvrir"),
    ("nature", "", "", "changer disparaître fleurir verdir"),
    ("event", "", "", """commencer finir continuer durer échouer approcher débuter recommencer se.achever
        se.terminer"""),
    ("abstract", "", "", """changer évoluer exister disparaître progresser échouer empirer réussir
        se.aggraver se.développer se.améliorer apparaître réapparaître persister varier"""),
    ("feeling", "", "", "grandir disparaître revenir durer augmenter diminuer se.dissiper"),
    ("force", "", "", """cesser approcher éclater arriver continuer commencer se.calmer redoubler
        se.intensifier"""),
    ("document art", "", "", "paraître plaire circuler exister disparaître se.vendre"),
    ("group", "", "", """voter décider progresser se.réunir protester intervenir résister délibérer
        se.taire réagir céder"""),
    ("food dish", "", "", "refroidir cuire moisir pourrir"),
    # prepositions
    ("person", "de", "person abstract event", """parler rêver se.souvenir se.plaindre se.moquer se.méfier
        se.occuper se.éloigner se.désintéresser se.rapprocher"""),
    ("person", "à", "person", """parler répondre téléphoner ressembler obéir sourire plaire mentir
        pardonner nuire"""),
    ("person", "à", "abstract event", """penser participer renoncer réfléchir assister se.intéresser
        se.opposer contribuer se.habituer échapper tenir croire résister se.préparer collaborer"""),
    ("group", "à", "abstract event", """participer renoncer se.opposer contribuer réfléchir assister
        se.intéresser"""),
    ("person group", "contre", "abstract person", "lutter protester voter se.battre plaider se.révolter"),
    ("person", "avec", "person", """parler jouer travailler discuter vivre danser voyager dîner bavarder
        rompre correspondre"""),
    ("person animal", "avec", "animal object", "jouer partir dormir arriver"),
    ("person", "dans", "building", """entrer travailler vivre habiter rester dormir se.installer pénétrer
        attendre loger"""),
    ("person", "à", "place", """habiter vivre travailler arriver aller rester revenir étudier retourner
        se.rendre naître mourir"""),
    ("person animal", "dans", "nature", """vivre marcher se.promener courir se.perdre se.aventurer
        disparaître errer"""),
    ("person", "de", "building", "sortir partir revenir arriver se.approcher se.enfuir"),
    ("person", "sur", "object abstract", "compter insister se.appuyer tomber"),
    ("vehicle", "devant", "building", "passer se.arrêter attendre stationner ralentir"),
    ("vehicle", "de", "place", "arriver partir revenir venir"),
    ("abstract", "de", "abstract group", "dépendre résulter relever découler provenir"),
    ("event", "dans", "building", "commencer se.dérouler se.terminer se.tenir"),
    ("object clothing", "sur", "object", "tomber traîner sécher reposer"),
    ("object document art", "à", "person group", "appartenir plaire manquer convenir"),
)  # fmt: skip

# Subject gives, shows or says a thing to a person.
GIVING = (
    (
        "object clothing",
        "donner offrir prêter montrer rendre vendre apporter envoyer confier distribuer réclamer voler",
    ),
    ("document art", "envoyer montrer lire dédier remettre présenter prêter apporter recommander"),
    ("dish food drink", "servir offrir apporter donner préparer refuser"),
    (
        "abstract event",
        "expliquer proposer présenter raconter annoncer imposer décrire enseigner rappeler promettre",
    ),
)
SAYING = """dire penser croire savoir expliquer affirmer annoncer espérer comprendre raconter répéter
    supposer remarquer ajouter constater estimer prétendre promettre oublier reconnaître imaginer répondre
    déclarer confirmer préciser soutenir sentir entendre rappeler avouer jurer observer conclure démontrer
    écrire découvrir noter signaler rétorquer"""
# Verbs before an infinitive, by the word that introduces it.
BEFORE_INFINITIVE = (
    (
        "",
        "vouloir pouvoir devoir savoir aimer préférer espérer désirer détester souhaiter oser adorer compter",
    ),
    (
        "de",
        """essayer décider refuser oublier accepter cesser promettre tenter choisir éviter rêver finir
            proposer craindre regretter envisager jurer se.dépêcher menacer""",
    ),
    (
        "à",
        """commencer apprendre réussir continuer hésiter chercher parvenir renoncer se.préparer se.mettre
            se.habituer""",
    ),
)
SEEMING = "devenir rester sembler paraître demeurer"

WITH_ETRE = """aller venir revenir devenir parvenir intervenir survenir provenir partir repartir sortir
    entrer rentrer arriver rester tomber retomber naître mourir retourner accourir passer apparaître
    réapparaître demeurer"""

# Suffix of the infinitive : present : stem of the future : passé simple, je : participle [: subjunctive stems]
IRREGULAR = """
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
DOUBLING = """appeler rappeler jeter rejeter projeter épeler renouveler feuilleter chanceler étinceler
    ficeler ruisseler"""
