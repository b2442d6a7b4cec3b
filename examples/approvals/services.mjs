import { standIn } from '../stand-in.mjs';

// Slack, GitHub and the service that sends mail: it prints the links that people would get.
standIn('people', process.env.MAIL_URL, () => ({}));
