def write(*a):
    return None
