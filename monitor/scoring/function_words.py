"""Words that carry no information in languages other than English."""

# ruff: noqa: RUF001 - the letters of other languages are meant
from __future__ import annotations

# Words that English texts use as well ("die", "come", "la") are left out.
_BY_LANGUAGE = {
    "German": """
der ein eine einen einem einer eines und oder aber nicht kein keine keinen ist sind waren
sein wird werden wurde wurden haben hatte kann können könnte muss müssen soll sollte darf
ich du er sie es ihr mir mich dir dich ihm ihn uns euch ihnen mein meine dein seine ihre
unser im auf aus bei mit nach von vom vor zu zum zur über unter für durch gegen ohne um seit
während wegen wie wer wo wann warum welche welcher welches dass ob wenn weil als auch nur
noch schon sehr mehr dann hier dort diese dieser dieses diesem sich
""",
    "French": """
les une au aux ou mais ne est sont était étaient être sera ont avait avoir peut peuvent doit
doivent je tu elle nous vous ils elles te leur mon mes ta tes ses notre votre vos leurs ce
cet cette ces ça cela sous avec entre vers chez depuis pendant avant après qui que quoi dont
où quand pourquoi combien quel quelle quels quelles comme aussi très bien tout tous toute
toutes même ainsi donc
""",
    "Spanish": """
una unos unas pero eran ser está están fue fueron ha había hay puede pueden debe deben yo tú
él ella nosotros ustedes ellos ellas lo mis tus su sus nuestro nuestra este esta estos estas
ese esa eso esto por para sobre hasta desde durante según qué quién quien cuál cuándo cuando
dónde donde cómo como cuánto cuántos cuánta cuántas también muy más menos ya todo todos toda
todas
""",
    "Portuguese": """
os uma umas mas não é são eram estão foi foram tem têm tinha há pode podem deve devem ele
ela nós você vocês eles elas lhe meu minha seu sua seus suas nosso nossa esse essa isso isto
aquele na nas ao à aos às sem pelo pela até quem qual quando onde quanto quantos porque
também muito já
""",
    "Italian": """
gli uno è sono erano essere sarà hanno aveva avere può possono devono io noi voi loro ti ci
mio mia tuo suo suoi nostro questo questa questi queste quello quella di dello della dei
degli delle allo alla agli alle dal nel nella nei nelle senza sul sulla tra fra che cui
quali perché quanti anche molto più meno già tutto tutti
""",
    "Dutch": """
het een maar niet geen zijn wordt worden werd heeft hebben kan kunnen moet moeten ik jij hij
zij ze wij jullie mij haar ons mijn uw deze dit aan bij naar voor onder uit om zonder tegen
sinds tijdens wat waar wanneer waarom hoe welke ook nog zeer meer
""",
    "Polish": """
oraz lub ale nie jest są był była było były być będzie będą mają może mogą ja ty ona ono wy
oni mnie się jego jej mój moja twój tego tej tym od po za przez przed nad dla bez przy kto
który która które kiedy gdzie jak dlaczego ile czy że jeśli gdy także też bardzo tylko już
""",
    "Swedish": """
och eller inte är vara blir blev har hade skulle måste jag mig deras denna detta dessa ett
av på från med för utan mellan vad vem vilken när hur varför som att också mycket mer
""",
    "Turkish": """
veya ama fakat değil bir bu şu sen biz onlar mı mu mü için gibi kadar göre sonra önce nerede
nasıl neden niçin kaç hangi çok daha ise yok olan olarak olduğu
""",
    "Russian": """
и или но а не ни это этот эта эти тот та те я ты он она оно мы вы они мне меня тебя его её
их нас вас им мой моя твой свой наш ваш в во на с со к ко у о об от до из за по под над для
без при через между перед после что кто какой какая какие когда где как почему сколько чтобы
если же ли бы был была было были быть есть будет может могут также очень уже только
""",
    "Ukrainian": """
і й або але це цей ця ці той ти він вона воно ми ви вони мені мене його її їх з із від під
між що хто який яка які коли де як чому скільки щоб якщо ж чи був була було були бути є буде
може можуть також дуже вже тільки
""",
}
FUNCTION_WORDS = frozenset(word for listed in _BY_LANGUAGE.values() for word in listed.split())
