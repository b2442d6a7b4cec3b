import leven from 'leven';

// No known name is longer, and the distance costs the product of both lengths.
const MAX_CHARACTERS = 100;
// Where there are more names than a person keeps in mind, each mistake would cost all of them.
export const MAX_NAMES = 200;

/** Of the first known names the one that is written most like this one, whatever its case; undefined where none is known. */
export function nearestName(name: string, known: Iterable<string>): string | undefined {
  let nearest: string | undefined;
  let shortest = Number.POSITIVE_INFINITY;
  let compared = 0;
  for (const candidate of known) {
    if (compared === MAX_NAMES) break;
    compared += 1;
    const distance = leven(name.slice(0, MAX_CHARACTERS).toLowerCase(), candidate.toLowerCase());
    if (distance >= shortest) continue;
    shortest = distance;
    nearest = candidate;
  }
  return nearest;
}

/** `; did you mean "webhookSlug"?`, or nothing where no name is known. */
export function didYouMean(name: string, known: Iterable<string>): string {
  const nearest = nearestName(name, known);
  return nearest === undefined ? '' : `; did you mean "${nearest}"?`;
}
