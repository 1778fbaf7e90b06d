"""Proper names: first names, family names, towns and countries; data only."""

FIRST_NAMES_MASCULINE = """
Pierre Jean Paul Louis Michel Jacques Philippe Thomas Nicolas Antoine Julien François Henri Alain Marc Luc
Hugo Lucas Léo Gabriel Arthur Raphaël Adam Jules Victor Martin Simon Étienne Vincent Olivier Laurent
Christophe Sébastien Guillaume Mathieu Alexandre Maxime Romain Benoît Fabien Xavier Yves Claude André Marcel
René Georges Gérard Émile Gustave Albert Édouard Frédéric Stéphane Thierry Denis Bruno Cédric Damien Éric
Gilles Jérôme Ludovic Mohamed Karim Youssef Amadou
"""
FIRST_NAMES_FEMININE = """
Marie Jeanne Anne Claire Sophie Julie Camille Emma Louise Alice Chloé Léa Manon Inès Jade Sarah Lucie
Charlotte Juliette Élise Hélène Isabelle Catherine Nathalie Sylvie Valérie Céline Aurélie Émilie Pauline
Mathilde Marguerite Simone Colette Suzanne Yvonne Odette Madeleine Thérèse Cécile Agnès Béatrice Brigitte
Caroline Delphine Estelle Fanny Florence Gabrielle Geneviève Irène Jacqueline Karine Laure Lise Margot Monique
Noémie Océane Patricia Rose Solène Virginie Fatima Aïcha Yasmine Zoé
"""
FAMILY_NAMES = """
Martin Bernard Dubois Durand Moreau Laurent Lefebvre Michel Garcia Leroy Roux Petit Fournier Girard Bonnet
Dupont Lambert Fontaine Rousseau Vincent Muller Mercier Blanc Guérin Boyer Garnier Chevalier François Legrand
Gauthier Perrin Robin Clément Morin Nicolas Henry Roussel Mathieu Gautier Masson Marchand Duval Denis Dumont
Marie Lemaire Noël Meyer Dufour Meunier Brun Blanchard Giraud Joly Rivière Lucas Brunet Gaillard Barbier
Arnaud Martinez Gérard Roche Renard Schmitt Roy Leroux Colin Vidal Caron Picard Roger Fabre Aubert Lemoine
Renaud Dumas Lacroix Olivier Philippe Bourgeois Pierre Benoît Rey Leclerc Payet Rolland Leclercq Guillaume
Lecomte Lopez Jean Dupuy Guillot Hubert Berger Carpentier Sanchez Dupuis Moulin Louis Deschamps Huet Vasseur
Perez Boucher Fleury Royer Klein Jacquet Adam Paris Poirier Marty Aubry Guyot Carré Charles Renault
Charpentier Ménard Maillard Baron Bertin Bailly Hervé Schneider Fernandez Collet
"""
TOWNS = """
Paris Lyon Marseille Toulouse Bordeaux Lille Nantes Strasbourg Nice Rennes Grenoble Montpellier Dijon Tours
Orléans Rouen Reims Londres Bruxelles Genève Rome Berlin Madrid Montréal Moscou Vienne Lisbonne Amsterdam
Athènes Varsovie Prague Budapest Dublin Tokyo Pékin Dakar Tunis Alger Beyrouth Istanbul Milan Venise Naples
Florence Turin Barcelone Séville Munich Hambourg Cologne Zurich Lausanne Liège Anvers Gand Québec Chicago
Boston Avignon Nîmes Arles Cannes Toulon Bayonne Pau Limoges Poitiers Angers Brest Quimper Lorient Vannes Caen
Amiens Calais Metz Nancy Colmar Mulhouse Besançon Annecy Chambéry Valence Perpignan Carcassonne Albi Rodez
Cahors Périgueux Angoulême Niort Bourges Chartres Versailles Troyes Auxerre Nevers Vichy Aurillac Ajaccio
Bastia Évreux Alençon Laval Épinal Belfort Oslo Helsinki
"""
COUNTRIES_FEMININE = """
France Allemagne Italie Espagne Belgique Suisse Angleterre Russie Chine Pologne Grèce Autriche Suède Norvège
Finlande Irlande Écosse Hongrie Roumanie Bulgarie Turquie Algérie Tunisie Égypte Inde Corée Thaïlande
Australie Argentine Colombie Bolivie Tanzanie Éthiopie Bretagne Normandie Provence Bourgogne Alsace Lorraine
Corse Savoie Auvergne Hollande
"""
COUNTRIES_MASCULINE = """
Canada Japon Brésil Portugal Mexique Maroc Danemark Sénégal Vietnam Chili Pérou Liban Cameroun Mali Kenya
Luxembourg Congo Népal Cambodge Togo Bénin Gabon Paraguay Venezuela Pakistan
"""
MONTHS = "janvier février mars avril mai juin juillet août septembre octobre novembre décembre"
DAYS = "lundi mardi mercredi jeudi vendredi samedi dimanche"
NUMBER_WORDS = """deux trois quatre cinq dix six sept huit neuf douze vingt quinze trente cent quarante
    cinquante mille"""
