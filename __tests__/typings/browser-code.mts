// Code written for browsers: the registration is imported for what it does.
import 'webnn-node/register';
