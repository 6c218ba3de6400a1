"""Sentences with ten words of three senses each, for studying the vectors of an encoder.

The sentences were written for this project, before anything was measured with them. Each sentence
contains its word once, in lower case.
"""

WORD_SENSES: dict[str, dict[str, tuple[str, ...]]] = {
    "bank": {
        "money": (
            "My sister pays her wages into the bank on the first of every month.",
            "The bank refused the loan because the shop had lost money for two years.",
            "I had to show my passport at the bank before they let me open an account.",
            "Two clerks at the bank counted the notes again and found one missing.",
            "Since the branch closed, the nearest bank is an hour away by bus.",
            "Her savings were safe when the bank failed, thanks to the state guarantee.",
        ),
        "river": (
            "We pulled the canoe up the muddy bank and ate our sandwiches in the grass.",
            "Willows lean over the water along the northern bank.",
            "An otter slid down the bank and vanished into the stream.",
            "After the flood the farmers strengthened the bank with stones.",
            "He sat fishing on the far bank until the sun went down.",
            "The children threw pebbles from the bank to see whose sank last.",
        ),
        "row": (
            "The engineer sat before a bank of switches and blinking lamps.",
            "A bank of lights above the stage went dark during the second act.",
            "In the hall there was a bank of lifts with brass doors.",
            "Reporters spoke into a bank of microphones on the steps of the court.",
            "The guard watched the corridors on a bank of small screens.",
            "Behind the operator hung a bank of telephones, all of them ringing.",
        ),
    },
    "bat": {
        "animal": (
            "A bat flew out of the barn at dusk and circled over the pond.",
            "The little bat hung upside down from a beam and folded its wings.",
            "By listening to the echoes of its calls, a bat finds moths in the dark.",
            "In winter the bat sleeps in a cave, and its heart hardly beats.",
            "Our cat brought home an injured bat with a torn wing.",
            "Biologists fitted the bat with a tiny transmitter to follow its flight.",
        ),
        "club": (
            "She gripped the bat with both hands and waited for the pitcher.",
            "His new bat is made of willow and cost more than his shoes.",
            "The ball struck the edge of the bat and flew over the fence.",
            "Leave your bat and gloves in the dugout after the game.",
            "He swung the bat too early and missed the ball by a foot.",
            "The captain autographed a bat for each child in the team.",
        ),
        "blink": (
            "The accused did not bat an eyelid when the sentence was read.",
            "She told the lie and did not even bat an eye.",
            "Nobody here would bat an eyelid at a price like that.",
            "You can wear pyjamas to the office and they will hardly bat an eye.",
            "Old Martin heard of the fire and did not bat an eyelash.",
            "He asked for half the company, and the owner did not bat an eyelid.",
        ),
    },
    "bow": {
        "weapon": (
            "The hunter drew his bow and let the arrow fly at the deer.",
            "She strung the bow, took an arrow and aimed at the target.",
            "An English archer could shoot ten arrows a minute with a long bow.",
            "He carved the bow from yew and made its string of hemp.",
            "Armed with nothing but a bow, the tribe fed itself for centuries.",
            "Robin hung his quiver and his bow on a branch before he slept.",
        ),
        "knot": (
            "Grandmother tied the ribbon into a bow and handed me the parcel.",
            "The little girl wore a pink bow in her hair.",
            "He has learned to tie his laces in a bow without help.",
            "There was a silk bow on the lid of the box of chocolates.",
            "She sewed a velvet bow onto the collar of the dress.",
            "The bow around the present came undone as soon as I pulled.",
        ),
        "ship": (
            "Waves broke over the bow and soaked everyone on deck.",
            "The sailor stood at the bow and looked out for icebergs.",
            "A hole had been torn in the bow when the ferry hit the rock.",
            "They painted the name of the yacht on both sides of the bow.",
            "Dolphins were swimming in front of the bow as we left the harbour.",
            "The anchor chain runs out through an opening near the bow.",
        ),
    },
    "cell": {
        "prison": (
            "The prisoner paced up and down his cell all night.",
            "A guard locked the cell and put the keys on his belt.",
            "She shared a cell with two other women until her trial.",
            "There was only a bunk and a bucket in the cell.",
            "He scratched the days of his sentence into the wall of the cell.",
            "The police kept the drunk man in a cell until he was sober.",
        ),
        "biology": (
            "Under the microscope the nucleus of the cell appears as a dark spot.",
            "The virus enters the cell and makes it copy its genes.",
            "Each cell in the leaf is surrounded by a stiff wall.",
            "When a cell divides, both halves receive the same chromosomes.",
            "Oxygen passes through the membrane into the cell.",
            "A nerve cell can be more than a metre long.",
        ),
        "battery": (
            "The torch needs one cell of one and a half volts.",
            "A lithium cell must not be charged when it is frozen.",
            "Each cell of the car battery holds lead plates in acid.",
            "The engineers built a fuel cell that runs on hydrogen.",
            "A single solar cell on the roof gives about half a volt.",
            "When the cell in my watch ran down, I had it replaced.",
        ),
    },
    "crane": {
        "bird": (
            "A crane waded through the marsh and speared a frog with its beak.",
            "The crane spread its grey wings and rose from the wet meadow.",
            "In autumn the crane flies south in great flocks.",
            "We heard the trumpet call of a crane long before we saw it.",
            "The female crane laid two spotted eggs among the reeds.",
            "With its long legs and red crown, the crane is easy to recognise.",
        ),
        "machine": (
            "The crane lifted the steel beam to the tenth floor.",
            "A crane in the harbour was unloading containers from the ship.",
            "The operator climbed the ladder to the cabin of the crane.",
            "In the storm a crane toppled onto the building site.",
            "They rented a crane to hoist the piano through the window.",
            "The hook of the crane swung over our heads with a load of bricks.",
        ),
        "stretch": (
            "I had to crane my neck to see over the heads of the crowd.",
            "Passengers crane forward in their seats when the summit comes into view.",
            "From the back row you must crane to get a glimpse of the singer.",
            "The children crane out of the window to watch the parade.",
            "People in the street stop and crane upwards at the man on the ledge.",
            "If you crane your neck, you can just make out the sea from the balcony.",
        ),
    },
    "match": {
        "game": (
            "Our team won the match by two goals to one.",
            "The match was stopped after an hour because of heavy rain.",
            "She lost the first set but went on to win the match.",
            "Fifty thousand fans watched the match in the new stadium.",
            "The referee blew his whistle, and the match was over.",
            "He sprained his ankle in training and will miss the next match.",
        ),
        "fire": (
            "He struck a match and lit the candles on the table.",
            "The match went out in the wind before the paper caught.",
            "She held a burning match to the gas ring.",
            "Someone had dropped a match in the dry grass, and the hill burned.",
            "There was one match left in the box, and the wood was damp.",
            "By the flame of a match we read the number on the door.",
        ),
        "agree": (
            "The curtains do not match the colour of the sofa.",
            "His fingerprints match those on the handle of the knife.",
            "These socks do not match: one is blue and the other black.",
            "Please check that the name and the number on the form match.",
            "The signature did not match the one on her passport.",
            "We chose a frame to match the old mirror in the hall.",
        ),
    },
    "pitch": {
        "field": (
            "The players ran onto the pitch and the crowd cheered.",
            "Rain had turned the football pitch into a swamp.",
            "A dog got onto the pitch and would not give back the ball.",
            "The groundsman mows and rolls the pitch before every game.",
            "Fans invaded the pitch when the last whistle blew.",
            "The school has a hockey pitch and two tennis courts.",
        ),
        "tone": (
            "Tighten the string a little, and the pitch rises by a semitone.",
            "She can name the pitch of any note that you play on the piano.",
            "The choir drifted down in pitch as the song went on.",
            "A child's voice has a higher pitch than a man's.",
            "The pitch of the siren fell as the ambulance passed us.",
            "He hummed the melody at the right pitch without an instrument.",
        ),
        "tar": (
            "They sealed the planks of the hull with hot pitch.",
            "The torches were sticks dipped in pitch and set alight.",
            "Boiling pitch was poured from the walls on the attackers.",
            "The smell of pitch and sawdust hung over the boatyard.",
            "His boots stuck to the black pitch that oozed out of the roof.",
            "Pine wood was burned slowly in pits to obtain pitch.",
        ),
    },
    "seal": {
        "animal": (
            "A seal lay on the rocks and basked in the sun.",
            "The seal dived under the ice and came up with a fish.",
            "At the zoo we watched a seal balance a ball on its nose.",
            "A young seal with white fur was calling for its mother on the beach.",
            "The polar bear waited at the hole for a seal to breathe.",
            "The fishermen complain that a seal tears holes in their nets.",
        ),
        "stamp": (
            "The king pressed his ring into the wax and so put his seal on the letter.",
            "The document is not valid without the seal of the notary.",
            "On the charter hangs a red seal with the arms of the city.",
            "He recognised the bishop's seal on the parchment.",
            "The great seal of the state is kept by the chancellor.",
            "A clerk stamped the official seal on both copies of the contract.",
        ),
        "closure": (
            "The tap drips because the rubber seal is worn.",
            "Replace the seal of the pump if oil leaks from the shaft.",
            "A perished seal on the fridge door lets the cold air out.",
            "The plumber put a new seal between the two pipes.",
            "The jar has a tight seal that keeps the coffee fresh.",
            "An engine loses pressure when the seal around the piston cracks.",
        ),
    },
    "spring": {
        "season": (
            "The apple trees blossom in spring, when the nights are still cold.",
            "Last spring we planted tulips along the garden path.",
            "After the long winter, everybody was looking forward to spring.",
            "Lambs are born in early spring on this farm.",
            "The course starts in spring and ends before the summer holidays.",
            "By late spring the swallows were back under our roof.",
        ),
        "coil": (
            "A broken spring stuck out of the old mattress.",
            "The steel spring inside the clock has to be wound once a week.",
            "Push the button, and a small spring throws the lid open.",
            "He hung a weight on the spring and measured how far it stretched.",
            "The rear spring of the car snapped when we drove into the pothole.",
            "Without its spring the pen will not click any more.",
        ),
        "water": (
            "The hikers filled their bottles at a spring in the woods.",
            "Clear water bubbled from the spring between mossy stones.",
            "The village drew all of its water from a single spring.",
            "They bathed in a hot spring that smelled of sulphur.",
            "The stream rises from a spring high on the mountain.",
            "In the dry year even the deep spring behind the chapel stopped flowing.",
        ),
    },
    "trunk": {
        "elephant": (
            "The elephant picked up the peanut with its trunk.",
            "A calf wound its trunk around its mother's tail.",
            "The old bull raised his trunk and trumpeted at the lions.",
            "She sprayed water over her back with her trunk and flapped her ears.",
            "The tip of the trunk is so delicate that it can pick a single blade of grass.",
            "The zookeeper fed the animal by laying bread in its outstretched trunk.",
        ),
        "tree": (
            "The trunk of the oak was so thick that three of us could not reach around it.",
            "Lightning had split the trunk from top to bottom.",
            "A woodpecker hammered at the rotten trunk of the birch.",
            "They counted the rings of the felled trunk to learn its age.",
            "Ivy climbs up the trunk and covers the lower branches.",
            "Sap ran down the trunk where the bark had been cut.",
        ),
        "case": (
            "She packed her dresses into a trunk and had it sent to the station.",
            "In the attic we found a trunk full of old letters.",
            "The porter carried the heavy trunk up to our cabin.",
            "He locked his uniform and medals in a wooden trunk.",
            "My grandfather came to America with a single trunk and ten dollars.",
            "The lid of the trunk creaked when I lifted out the blankets.",
        ),
    },
}
"""By word and sense, six sentences each: `WORD_SENSES["spring"]["water"][0]`."""

LAYER_WORDS = ("bank", "bat", "bow", "cell", "crane")
"""The words on which a layer of an encoder is chosen."""
TEST_WORDS = ("match", "pitch", "seal", "spring", "trunk")
"""The words on which it is then measured."""
