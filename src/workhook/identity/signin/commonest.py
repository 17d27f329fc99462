"""The commonest passwords that are long enough to be taken otherwise, without regard to case and punctuation."""

from __future__ import annotations

COMMONEST = frozenset(
    """
    0123456789 1029384756 10293847565 1111111111 1122334455 112233445566 123123123123 1234512345 12345678910
    123456789a 123456789q 1234567890a 1234567890q 1234567890qwertyuiop 123qweasdzxc 147258369 1472583690 1q2w3e4r5t
    1q2w3e4r5t6y 1qaz2wsx3edc 1qaz2wsx3edc4rfv 2wsx3edc4rfv 3rjs1la7qe 5201314520 741852963 7418529630 7894561230
    987654321 9876543210 aa12345678 aaaaaaaaaa abc1234567 abc123456789 abcd123456 abcd12345678 abcdef123456
    admin12345 admin123456 administrator adminadmin adminpassword asdf123456 asdfasdfasdf asdfghjkl asdfghjkl1
    asdfghjkl123 asdfghjkl12345 azertyuiop azertyuiop123 baseball123 basketball businessman butterfly1 changeme123
    changeme1234 changemenow charlie123 chocolate1 computer123 correcthorsebatterystaple dragon1234 elizabeth1
    football10 football123 football1234 fuckyou123 geheim1234 hallo12345 heslo12345 hello12345 hello123456 iloveyou12
    iloveyou123 iloveyou1234 iloveyou2 iloveyouso jennifer123 jonathan123 letmein123 letmein1234 letmeinnow
    liverpool1 liverpoolfc lovelovelove manchester michael123 microsoft1 monkey1234 motdepasse motdepasse1 newpassword
    p4ssw0rd123 p4ssword123 pa55word123 pa55w0rd123 passpasspass passw0rd12 passw0rd123 passw0rd1234 password00
    password01 password10 password11 password12 password123 password1234 password12345 password123456 password2024
    password2025 password2026 password99 passwordpassword passwort12 passwort123 passwort1234 pokemon123 princess12
    princess123 q1w2e3r4t5 q1w2e3r4t5y6 qazwsxedc1 qazwsxedc123 qazwsxedcrfv qqww1122334455 qwaszx1234 qwe123qwe123
    qweasdzxc1 qweasdzxc123 qwer123456 qwert12345 qwerty1234 qwerty12345 qwerty123456 qwertyqwerty qwertyui12
    qwertyuiop qwertyuiop1 qwertyuiop12 qwertyuiop123 qwertyuiopasdfghjkl qwertzuiop qwertzuiop1 samsung123 secret1234
    secretsecret spiderman1 starwars123 summer2024 summer2025 summer2026 sunshine12 sunshine123 superman12 superman123
    test123456 test12345678 testtest12 testtest123 testtesttest tinkerbell undertaker unbelievable welcome123
    welcome1234 welcome12345 welcome2024 welcome2025 welcome2026 wojiushiwo1 woaini1314 woaini1314520 woaini520
    zaq12wsxcde3 zaq1zaq1zaq1 zxcvbnm123 zxcvbnm1234 zxcvbnmasdfghjkl
    """.split()  # noqa: SIM905  # a hundred and fifty quoted words would be read by nobody
)
