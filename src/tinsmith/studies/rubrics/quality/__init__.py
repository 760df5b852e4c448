"""Does a judge with rubrics tell better answers from worse ones?"""
