"""The adjectives, by what they say of whom, and the feminines that no rule gives: data only."""

# Before the noun.
BEFORE = {
    "any": "petit grand nouveau autre ancien vieux dernier premier",
    "living": "jeune petit vieux grand pauvre gros brave nouveau autre ancien vieux fameux",
    "thing": """petit grand beau vieux gros joli nouveau bon mauvais énorme superbe ancien minuscule
        vilain magnifique""",
    "work": "nouveau grand vieux beau bon mauvais petit magnifique superbe premier dernier ancien",
    "notion": """grand nouveau bon mauvais long simple véritable premier dernier autre ancien énorme vrai
        faux double""",
}

# After the noun, or as attribute of the subject.
AFTER = {
    "colour": """rouge noir blanc bleu vert jaune gris brun rose violet doré argenté clair sombre pâle
        beige mauve écarlate bleuâtre verdâtre jaunâtre grisâtre rougeâtre multicolore transparent bariolé
        orangé""",
    "matter": """lourd léger solide fragile propre sale neuf usé cassé rond carré plat étroit épais mince
        pointu creux lisse rugueux mou dur brillant froid chaud humide mouillé vide plein ouvert fermé
        pratique utile précieux moderne coûteux rare élégant luxueux rustique ovale rectangulaire
        triangulaire circulaire métallique électrique portatif poussiéreux rouillé abîmé fendu imposant
        encombrant étanche inflammable résistant volumineux""",
    "character": """heureux triste content fier intelligent gentil méchant timide courageux généreux
        honnête sincère fidèle jaloux curieux sérieux paresseux drôle bavard discret patient prudent poli
        sage fou calme inquiet malheureux fatigué célèbre riche puissant malade vivant blessé seul nerveux
        furieux têtu naïf vif actif agressif attentif craintif pensif passif impulsif créatif inventif
        maladroit adroit habile rusé cruel orgueilleux ambitieux envieux consciencieux méticuleux
        capricieux audacieux peureux soigneux coléreux superstitieux silencieux joyeux gracieux anxieux
        ingénieux studieux grincheux étourdi distrait insolent impatient indépendant tolérant arrogant
        élégant charmant souriant exigeant méfiant prévoyant obéissant entreprenant loyal jovial génial
        original sentimental matinal sympathique énergique dynamique pessimiste optimiste modeste aimable
        raisonnable sociable irritable vulnérable responsable infatigable serviable admirable muet
        inquiétant blond roux chauve maigre mince robuste""",
    "beast": """sauvage féroce rapide doux affamé dangereux craintif agile lent docile malade vorace
        domestique errant venimeux carnivore herbivore nocturne apprivoisé bruyant énorme inoffensif
        blessé robuste trapu poilu""",
    "notion": """important difficile facile simple complexe possible impossible nécessaire utile inutile
        évident faux clair obscur récent moderne historique politique économique social culturel
        scientifique national international général particulier public officiel principal essentiel
        fondamental grave sérieux inattendu surprenant étonnant intéressant ennuyeux remarquable
        exceptionnel terrible absurde logique secret réel actuel traditionnel naturel personnel
        professionnel individuel collectif positif négatif définitif décisif excessif progressif
        administratif juridique technique théorique pratique stratégique historique symbolique
        électronique numérique climatique énergétique écologique industriel commercial financier
        judiciaire militaire religieux philosophique psychologique artistique littéraire scolaire
        universitaire alimentaire élémentaire provisoire obligatoire contradictoire considérable durable
        acceptable inévitable inoubliable incroyable discutable irréversible invisible sensible crédible
        permanent urgent fréquent cohérent imprudent éminent global mondial régional local rural colonial
        médical légal illégal idéal moral normal radical brutal partiel potentiel éventuel ponctuel
        rationnel structurel exemplaire nécessaire ambigu douteux désastreux avantageux mystérieux
        minutieux""",
    "taste": """délicieux sucré salé amer acide frais cru cuit épicé tiède chaud froid mûr fade
        croustillant onctueux gras parfumé glacé fumé grillé farci biologique végétal savoureux
        appétissant écœurant caramélisé surgelé""",
    "landscape": """calme sauvage lointain profond ensoleillé enneigé boisé paisible escarpé brumeux
        verdoyant montagneux sec désertique tropical isolé pittoresque inaccessible rocheux aride fertile
        désolé venteux marécageux""",
    "place": """moderne vaste célèbre abandonné central médiéval gothique municipal bruyant tranquille
        spacieux lumineux luxueux étroit désert historique commercial animé populaire propre somptueux
        monumental accueillant délabré voûté fortifié fleuri rénové souterrain""",
    "origin": """français anglais américain allemand italien espagnol russe chinois japonais belge
        européen suisse africain canadien grec portugais polonais turc suédois norvégien danois brésilien
        asiatique indien irlandais écossais hollandais hongrois autrichien marocain algérien tunisien
        égyptien vietnamien coréen mexicain argentin australien breton normand parisien lyonnais
        marseillais alsacien corse provençal basque bordelais toulousain finlandais islandais roumain
        bulgare ukrainien libanais iranien sénégalais malgache péruvien chilien cubain""",
    "style": """classique romantique baroque contemporain célèbre original comique tragique court long
        réaliste anonyme inachevé posthume satirique émouvant monotone captivant fantastique policier
        lyrique épique""",
    "power": """puissant célèbre divisé prudent inquiet uni favorable hostile indépendant efficace riche
        pauvre déterminé actif silencieux satisfait ambitieux optimiste démocratique influent corrompu
        méfiant""",
    "machine": """rapide lent neuf puissant moderne confortable bruyant vide plein lourd électrique blindé
        spacieux rouillé silencieux économique""",
    "happening": """long court réussi inattendu important grave violent joyeux triste solennel tragique
        sanglant mémorable mouvementé international annuel spectaculaire bruyant animé difficile pacifique
        amical décisif""",
    "mood": """profond sincère immense étrange terrible secret soudain durable sombre inattendu violent
        passager vif aveugle intense évident excessif inexplicable""",
    "weather": "violent fort terrible brutal soudain glacial tropical dévastateur intense bref",
    "plantlike": """fleuri parfumé fané sauvage centenaire épineux exotique rare vénéneux sec grimpant
        touffu vivace robuste""",
}

# Which adjectives suit which kinds of noun: before the noun, after it, and as attribute of it.
BEFORE_OF_KIND = {
    "person": "living", "animal": "living", "group": "any", "food": "thing", "dish": "thing", "drink": "thing",
    "plant": "thing", "object": "thing", "clothing": "thing", "vehicle": "thing", "building": "thing",
    "nature": "thing", "document": "work", "art": "work", "abstract": "notion", "feeling": "notion",
    "event": "notion", "force": "notion", "settlement": "thing",
}  # fmt: skip
AFTER_OF_KIND = {
    "person": "character character origin", "animal": "beast beast colour", "group": "power origin",
    "food": "taste", "dish": "taste", "drink": "taste origin", "plant": "plantlike plantlike colour",
    "object": "matter matter colour", "clothing": "colour matter", "vehicle": "machine machine colour origin",
    "building": "place place place origin", "nature": "landscape landscape origin", "settlement": "place origin",
    "document": "notion style origin", "art": "style style origin", "abstract": "notion", "feeling": "mood",
    "event": "happening", "force": "weather",
}  # fmt: skip
ATTRIBUTE_OF_KIND = {
    "person": "character", "animal": "beast", "group": "power", "food": "taste", "dish": "taste",
    "drink": "taste", "plant": "plantlike", "object": "matter colour", "clothing": "colour matter",
    "vehicle": "machine machine colour", "building": "place", "nature": "landscape", "document": "style",
    "art": "style", "abstract": "notion", "feeling": "mood", "event": "happening", "force": "weather",
}  # fmt: skip

IRREGULAR_FEMININES = """
beau/belle nouveau/nouvelle vieux/vieille fou/folle mou/molle doux/douce roux/rousse faux/fausse
jaloux/jalouse favori/favorite frais/fraîche gentil/gentille nul/nulle ambigu/ambiguë aigu/aiguë blanc/blanche
franc/franche sec/sèche public/publique grec/grecque turc/turque long/longue bref/brève gros/grosse
gras/grasse bas/basse épais/épaisse complet/complète concret/concrète discret/discrète inquiet/inquiète
secret/secrète paysan/paysanne vif/vive dévastateur/dévastatrice conservateur/conservatrice sot/sotte
bénin/bénigne malin/maligne
"""

# What a masculine adjective becomes before a vowel.
BEFORE_VOWEL = {"beau": "bel", "nouveau": "nouvel", "vieux": "vieil"}
